"""`prefetch(array, row, column)`: ask the CPU to bring that entry's cache line near; a hint that computes nothing.

It leans on internals of numba and llvmlite. Where those have moved, `prefetch` is a function that does nothing.
"""

from __future__ import annotations

from typing import Any

from tuplet._jit import jit


def _make_prefetch() -> Any:
    from llvmlite import ir
    from numba.core import cgutils, types
    from numba.extending import intrinsic

    @intrinsic  # type: ignore[untyped-decorator]
    def prefetch(typing_context: Any, array: Any, row: Any, column: Any) -> Any:
        def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            struct = context.make_array(signature.args[0])(context, builder, args[0])
            shape = cgutils.unpack_tuple(builder, struct.shape, 2)
            strides = cgutils.unpack_tuple(builder, struct.strides, 2)
            place = cgutils.get_item_pointer2(
                context, builder, struct.data, shape, strides, array.layout, [args[1], args[2]], wraparound=False
            )
            byte, word = ir.IntType(8).as_pointer(), ir.IntType(32)
            kind = ir.FunctionType(ir.VoidType(), [byte, word, word, word])
            call = cgutils.get_or_insert_function(builder.module, kind, "llvm.prefetch.p0i8")
            hints = [ir.Constant(word, number) for number in (0, 3, 1)]  # read, keep in all levels, data
            builder.call(call, [builder.bitcast(place, byte), *hints])
            return context.get_dummy_value()

        return types.void(array, types.uint64, types.uint64), codegen

    probe: Any = jit(lambda array: prefetch(array, 0, 0))
    import numpy as np

    probe(np.zeros((1, 1), np.float32))
    return prefetch


def _nothing(array: Any, row: Any, column: Any) -> None:
    return None


try:
    prefetch = _make_prefetch()
    HAS_PREFETCH = True
except Exception:  # numba or llvmlite has changed inside: the kernels work without the hint
    prefetch = jit(_nothing)
    HAS_PREFETCH = False
