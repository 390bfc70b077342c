"""Arrays as pointers, for functions that are called for every character.

Numba counts references to the arrays that a function takes, at each call; where calls are short, that is most of the time. A pointer is
counted by nobody: whoever takes one has to hold the array itself until the last use, which an argument from Python is.
"""

from __future__ import annotations

import sys
from typing import Any

import numba as nb
from llvmlite import ir
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
def word64(typing_context: Any, octets: Any, at: Any) -> Any:
    """The little-endian uint64 that begins at an octet, wherever that lies: one load, where putting it together takes eight."""

    def lower(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        octet = builder.gep(args[0], [args[1]])
        word = builder.load(builder.bitcast(octet, ir.IntType(64).as_pointer()), align=1)
        return word if sys.byteorder == "little" else builder.bswap(word)

    return nb.types.uint64(U8P, nb.types.int64), lower
