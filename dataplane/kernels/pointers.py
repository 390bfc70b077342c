"""Arrays as pointers, for functions that are called for every character.

Numba counts references to the arrays that a function takes, at each call; where calls are short, that is most of the time. A pointer is
counted by nobody: whoever takes one has to hold the array itself until the last use, which an argument from Python is.
"""

from __future__ import annotations

from typing import Any

import numba as nb
from numba.core import cgutils
from numba.extending import intrinsic

U8P, U16P, U64P = nb.types.CPointer(nb.uint8), nb.types.CPointer(nb.uint16), nb.types.CPointer(nb.uint64)
I32P, I64P = nb.types.CPointer(nb.int32), nb.types.CPointer(nb.int64)


@intrinsic
def pointer(typing_context: Any, array: Any) -> Any:
    """Pointer to the first item of a contiguous array."""

    def lower(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return cgutils.create_struct_proxy(signature.args[0])(context, builder, value=args[0]).data

    return nb.types.CPointer(array.dtype)(array), lower


@intrinsic
def read64(typing_context: Any, array: Any, at: Any) -> Any:
    """The 8 bytes of a uint8 array from `at` on as one number, in the order of the machine; nobody checks that they are there."""

    def lower(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        data = cgutils.create_struct_proxy(signature.args[0])(context, builder, value=args[0]).data
        place = builder.bitcast(builder.gep(data, [args[1]]), context.get_value_type(nb.uint64).as_pointer())
        return builder.load(place, align=1)

    return nb.uint64(array, nb.int64), lower


@intrinsic
def write64(typing_context: Any, array: Any, at: Any, word: Any) -> Any:
    """Writes a number over the 8 bytes of a uint8 array from `at` on, in the order of the machine; nobody checks that they are there."""

    def lower(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        data = cgutils.create_struct_proxy(signature.args[0])(context, builder, value=args[0]).data
        place = builder.bitcast(builder.gep(data, [args[1]]), context.get_value_type(nb.uint64).as_pointer())
        builder.store(args[2], place, align=1)
        return context.get_dummy_value()

    return nb.void(array, nb.int64, nb.uint64), lower
