"""Text files as people have them: blanks, blank lines, quotes, odd numbers, zero bytes, long lines, bombs."""

from __future__ import annotations

import gzip
import io
import mmap
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tuplet.io._text
from tuplet import InputError, read_graph
from tuplet.io._quotes import open_quote, stepped
from tuplet.io.convert import convert


def both(folder: Path, edges: bytes | str, name: str = "e.csv", **options: Any) -> Any:
    """The graph of a text file, read in memory and on disk, which must agree."""
    path = folder / name
    path.write_bytes(edges.encode() if isinstance(edges, str) else edges)
    memory = read_graph(path, **options)
    disk = convert(path, folder / f"{name}.graph", **options)
    assert memory.fingerprint() == disk.fingerprint() and memory.node_ids.tolist() == disk.node_ids.tolist()
    return memory


def test_a_line_with_a_column_that_is_asked_for_is_a_header(tmp_path: Path) -> None:
    """Texts below unknown words look alike: only the name that is given tells them apart."""
    graph = both(tmp_path, "who,knows\nann,bob\nbob,cy\n", source="who", target="knows")
    assert graph.node_ids.tolist() == ["ann", "bob", "cy"]
    assert both(tmp_path, "7,8\n1,2\n2,3\n", "n.csv", source="7", target="8").n_nodes == 3
    people = tmp_path / "people.csv"
    people.write_text("name,town\nann,Ulm\nbob,Rom\ncy,Ulm\n")
    edges = {"who": ["ann", "bob"], "knows": ["bob", "cy"]}
    assert (
        read_graph(edges, people, id="name").feature_names
        == read_graph(edges, people, id="name", header=True).feature_names
    )
    assert read_graph(edges, labels=people, id="name", label="town").label_names == ("Rom", "Ulm")


@pytest.mark.parametrize(
    "text",
    [
        "\n\nsource,target\na,b\nb,c\n",
        "   \nsource,target\na,b\n  \nb,c\n\n",
        "source, target\na, b\n b ,c \n",
        'source,target\n"a","b"\n"b", "c"\n',
        "\ufeff\r\nsource,target\r\na,b\r\nb,c\r\n",
        "# note\n\n# another\nsource\ttarget\na\tb \nb\tc\n",
        "source;target\na; b\nb ;c",
        'source,target,note\na,b,"two\nlines, and ""more"""\nb,c,\n',
        'source,target,note\na,b,"x\n# no comment"\nb,c,5" disk\n',
    ],
)
def test_every_dress_gives_the_same_graph(tmp_path: Path, text: str) -> None:
    g = both(tmp_path, text)
    assert g.node_ids.tolist() == ["a", "b", "c"] and g.edges().tolist() == [[0, 1], [1, 2]]


@pytest.mark.parametrize("block", [1, 7, 64])
def test_blocks_of_any_size_give_the_same_rows(tmp_path: Path, block: int, monkeypatch: pytest.MonkeyPatch) -> None:
    text = "# c\nid,note,n\n" + "".join(f'{i},"a\n""{i}"", b",{i / 2}\n\n' for i in range(20))
    (tmp_path / "n.csv").write_text(text)
    edges = [[i, (i + 1) % 20] for i in range(20)]
    plain = {"categorical": ["note"], "scale": False}
    whole = read_graph(edges, tmp_path / "n.csv", **plain)
    monkeypatch.setattr(tuplet.io._text, "BLOCK", block)
    cut = read_graph(edges, tmp_path / "n.csv", **plain)
    assert cut.fingerprint() == whole.fingerprint() and cut.feature_names == whole.feature_names
    assert whole.n_features == 21 and whole.feature_names[0] == 'note=a\n"0", b'


@pytest.mark.parametrize(
    ("cell", "cells"), [("1,5", "2,5"), ("10%", "20%"), ("$10", "$3"), ("1,234", "5"), ("1.234,5", "2"), ("3 €", "7")]
)
def test_numbers_in_other_forms_are_refused_with_their_line(tmp_path: Path, cell: str, cells: str) -> None:
    (tmp_path / "n.csv").write_text(f"# prices\nid;price\na;4\n\nb;{cell}\nc;{cells}\n")
    with pytest.raises(InputError, match=r"Line 5 of .*n\.csv, column 'price', holds .*a number in a form"):
        read_graph([("a", "b"), ("b", "c")], tmp_path / "n.csv")
    with pytest.raises(InputError, match=r"Line 5 of .*n\.csv, column 'price', holds"):
        convert(pa.table({"source": ["a", "b"], "target": ["b", "c"]}), tmp_path / "g", features=tmp_path / "n.csv")
    g = read_graph([("a", "b"), ("b", "c")], tmp_path / "n.csv", categorical=["price"])
    assert g.n_features >= 2


@pytest.mark.parametrize("at", [3, 40_000])
def test_a_zero_byte_is_refused_with_its_line_wherever_it_stands(tmp_path: Path, at: int) -> None:
    lines = [b"%d,%d" % (i, i + 1) for i in range(50_000)]
    lines[at - 1] += b"\0"
    (tmp_path / "e.csv").write_bytes(b"\n".join(lines))
    for call in (read_graph, lambda path: convert(path, tmp_path / "g")):
        with pytest.raises(InputError, match=f"Line {at} of .* holds a zero byte"):
            call(tmp_path / "e.csv")


def test_a_ragged_row_is_refused_with_its_line(tmp_path: Path) -> None:
    rows = ["# head", "source,target", *(f"{i},{i + 1}" for i in range(30)), "", "7,8,9", "1,2"]
    (tmp_path / "e.csv").write_text("\n".join(rows))
    for call in (read_graph, lambda path: convert(path, tmp_path / "g")):
        with pytest.raises(InputError, match=r"Line 34 of .*Expected 2 columns, got 3"):
            call(tmp_path / "e.csv")


def test_a_line_without_end_is_refused_early(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tuplet.io._text, "LONGEST_LINE", 2**16)
    monkeypatch.setattr(tuplet.io._text, "BLOCK", 2**14)
    bomb = gzip.compress(b"a,b\n" + b"x" * 2**24)
    (tmp_path / "e.csv.gz").write_bytes(bomb)
    (tmp_path / "quote.csv").write_bytes(b"a,b\n" * 2**15 + b'"never closed,\n' + b"x,y\n" * 2**15)
    for name in ("e.csv.gz", "quote.csv"):
        for call in (read_graph, lambda path: convert(path, tmp_path / "g")):
            with pytest.raises(InputError, match=r"has a row of over|is not like the others"):
                call(tmp_path / name)


def test_a_file_that_expands_beyond_reason_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tuplet.io._text, "EXPANDED", 2**20)
    (tmp_path / "e.csv.gz").write_bytes(gzip.compress(b"1,2\n" * 2**20))
    with pytest.raises(InputError, match="expands to over"):
        read_graph(tmp_path / "e.csv.gz")
    (tmp_path / "e.jsonl.gz").write_bytes(gzip.compress(b'{"a": 1, "b": 2' + b" " * 2**22 + b"}\n"))
    with pytest.raises(InputError, match="expands to over"):
        read_graph(tmp_path / "e.jsonl.gz")


def packed(text: bytes, pack: str) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.CompressedOutputStream(sink, pack) as stream:
        stream.write(text)
    return sink.getvalue().to_pybytes()  # type: ignore[no-any-return]


@pytest.mark.parametrize("pack", ["gzip", "zstd", "bz2"])
def test_a_packed_file_that_breaks_off_keeps_no_memory(tmp_path: Path, pack: str) -> None:
    statm, path = Path("/proc/self/statm"), tmp_path / "edges.csv"
    if not statm.is_file():
        pytest.skip("the address space of a process is read from /proc")
    text = "".join(f"{i},{i * 7 % 1000}\n" for i in range(1000)).encode()
    path.write_bytes(packed(text, pack)[:-20])

    def pages_after(times: int) -> int:
        for _ in range(times):
            with pytest.raises(InputError, match="cannot be read to its end"):
                read_graph(path)
        return int(statm.read_text().split()[0])

    before = pages_after(8)
    grown = (pages_after(40) - before) * mmap.PAGESIZE
    assert grown < 10 * tuplet.io._text.BLOCK


@pytest.mark.parametrize("pack", ["gzip", "zstd", "bz2"])
def test_packed_files_and_streams_are_known_by_their_first_bytes(tmp_path: Path, pack: str) -> None:
    text = b"source,target\na,b\nb,c\n"
    data = packed(text, pack)
    expected = read_graph(io.BytesIO(text)).fingerprint()
    assert read_graph(io.BytesIO(data)).fingerprint() == expected
    assert both(tmp_path, data, "e.csv").fingerprint() == expected
    with pytest.raises(InputError):
        read_graph(io.BytesIO(data[: len(data) // 2]))


@given(st.text('",\n a', max_size=40), st.integers(0, 40))
def test_open_quotes_are_those_found_quote_by_quote(text: str, cut: int) -> None:
    data = text.encode()
    cut = min(cut, len(data))
    assert open_quote(data, cut, ord(",")) == stepped(data, cut, ord(","))
