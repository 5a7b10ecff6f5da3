"""The paper's graphs by name: found on this machine, or downloaded, checked and kept."""

from tuplet.datasets._load import (
    Dataset,
    content_of,
    dataset_names,
    dataset_path,
    dataset_table,
    datasets,
    fetch_dataset,
    load_dataset,
    register_dataset,
)

__all__ = [
    "Dataset", "content_of", "dataset_names", "dataset_path", "dataset_table", "datasets", "fetch_dataset",
    "load_dataset", "register_dataset",
]  # fmt: skip
