"""Old pickles read without their code: only arrays, CSR matrices, dicts, lists and numbers can come out.

A pickle names the functions that rebuild its objects, and Python's reader calls whatever is named. Here every name
maps to a stand-in that only records what it is given; any other name is an error.
"""

from __future__ import annotations

import io
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.sparse as sp

from tuplet._check import InputError
from tuplet.io.npz import checked_csr

_ROOTS = ("numpy.core.multiarray", "numpy._core.multiarray", "numpy.core.numeric", "numpy._core.numeric", "numpy")
_KINDS = "biufO"


def safe_unpickle(data: bytes, name: str) -> Any:
    """The object in the pickle `data`, made of plain arrays, CSR matrices, dicts, lists and numbers only.

    >>> import pickle
    >>> safe_unpickle(pickle.dumps({"a": [1, 2]}), "example")
    {'a': [1, 2]}
    """
    try:
        return _plain(_Reader(io.BytesIO(data), encoding="latin1").load())
    except InputError:
        raise
    except Exception as error:  # a damaged pickle can raise nearly anything
        raise InputError(f"{name} is not a readable pickle ({error}). Download it again.") from None


class _DType:
    def __init__(self, code: str, align: Any = False, copy: Any = True) -> None:
        self.code = str(code)

    def __setstate__(self, state: Any) -> None:
        order = state[1] if state[1] in ("<", ">") else ""
        self.code = order + self.code.lstrip("<>|=")

    def resolve(self) -> np.dtype[Any]:
        dtype = np.dtype(self.code)
        if dtype.kind not in _KINDS:
            raise ValueError(f"dtype {self.code!r} is not allowed")
        return dtype


class _Array:
    def __setstate__(self, state: Any) -> None:
        _, self.shape, self.dtype, self.fortran, self.raw = state

    def resolve(self) -> Any:
        dtype = self.dtype.resolve()
        if dtype.kind == "O":
            items = [_plain(item) for item in self.raw]
            return items[0] if self.shape == () and len(items) == 1 else items
        raw = self.raw.encode("latin1") if isinstance(self.raw, str) else self.raw
        flat = np.frombuffer(raw, dtype=dtype)
        return flat.reshape(self.shape, order="F" if self.fortran else "C")


class _Csr:
    state: dict[str, Any]

    def __setstate__(self, state: Any) -> None:
        self.state = dict(state)

    def resolve(self) -> sp.csr_array:
        shape: Any = self.state.get("_shape", self.state.get("shape"))
        parts = [_plain(self.state[part]) for part in ("data", "indices", "indptr")]
        return checked_csr(parts[0], parts[1], parts[2], (int(shape[0]), int(shape[1])))


class _Object:
    """Stands for Python 2's `object`, the base named by copy_reg._reconstructor."""


def _reconstruct_array(kind: Any, shape: Any, code: Any) -> _Array:
    return _Array()


def _frombuffer(raw: Any, dtype: _DType, shape: Any, order: str) -> Any:
    return np.frombuffer(bytes(raw), dtype=dtype.resolve()).reshape(shape, order="F" if order == "F" else "C")


def _reconstruct_object(kind: Any, base: Any, state: Any) -> _Csr:
    if kind is not _Csr:
        raise ValueError("only CSR matrices are rebuilt")
    return _Csr()


def _scalar(dtype: _DType, raw: Any) -> Any:
    data = raw.encode("latin1") if isinstance(raw, str) else raw
    return np.frombuffer(data, dtype=dtype.resolve())[0].item()


def _encode(text: str, codec: str = "latin1") -> bytes:
    return text.encode("latin1")


def _dict(factory: Any = None) -> dict[Any, Any]:
    return {}


def _list(items: Any = ()) -> list[Any]:
    return list(items)


_NAMES: dict[tuple[str, str], Any] = {
    ("collections", "defaultdict"): _dict,
    ("collections", "OrderedDict"): _dict,
    ("copy_reg", "_reconstructor"): _reconstruct_object,
    ("copyreg", "_reconstructor"): _reconstruct_object,
    ("_codecs", "encode"): _encode,
}
_NAMES |= {(module, "list"): _list for module in ("__builtin__", "builtins")}
_NAMES |= {(module, "object"): _Object for module in ("__builtin__", "builtins")}
_NAMES |= {(module, "csr_matrix"): _Csr for module in ("scipy.sparse.csr", "scipy.sparse._csr", "scipy.sparse")}
_NAMES |= {(root, "_reconstruct"): _reconstruct_array for root in _ROOTS}
_NAMES |= {(root, "scalar"): _scalar for root in _ROOTS}
_NAMES |= {(root, "_frombuffer"): _frombuffer for root in _ROOTS}
_NAMES |= {(root, "ndarray"): _Array for root in _ROOTS}
_NAMES |= {(root, "dtype"): _DType for root in _ROOTS}


class _Reader(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        try:
            return _NAMES[module, name]
        except KeyError:
            raise InputError(
                f"The pickle asks for {module}.{name}, which is not needed for a graph and is not called. "
                "Use a file from the original source."
            ) from None


def _plain(value: Any) -> Any:
    resolve: Callable[[], Any] | None = getattr(value, "resolve", None)
    if resolve is not None:
        return resolve()
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_plain(item) for item in value]
    return value
