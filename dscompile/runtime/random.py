"""Random numbers that are pure functions of integer keys.

There is no generator and no state: the number for a sample is computed from a key and the sample's id, so it
is the same on CPU and GPU, for any batch size, in any process and after a resume. The mixer is the finaliser
of SplitMix64 (Steele, Lea and Flood, "Fast splittable pseudorandom number generators", OOPSLA 2014; its
constants are Stafford's "Mix13"). Integer arithmetic wraps modulo 2**64 everywhere. No function waits for a
device.
"""

from __future__ import annotations

import operator
from collections.abc import Iterator

import torch

from dscompile.errors import OptionError

_MASK = (1 << 64) - 1
_SIGN = 1 << 63
_GOLDEN = 0x9E3779B97F4A7C15  # 2**64 / golden ratio, odd: SplitMix64's increment
_FIRST, _SECOND = 0xBF58476D1CE4E5B9, 0x94D049BB133111EB
_SHIFTS = 30, 27, 31
MAX_SPAN = 1 << 31  # a 32-bit word times a larger span would not fit int64


def derive(*parts: int | str) -> int:
    """Return the 64-bit key of a list of parts, such as `derive(seed, epoch, place, "crop")`.

    Args:
        parts: Integers of any sign and size, taken modulo 2**64 (so -1 and 2**64 - 1 are the same part), and
            strings. The order of the parts matters, and "1" is not 1.

    Returns:
        An integer in [0, 2**64): plain Python, the same on every machine.

    Raises:
        OptionError: A part is neither an integer nor a string.
    """
    key = 0
    for part in parts:
        for word in _words(part):
            key = mix(((key + _GOLDEN) & _MASK) ^ word)
    return key


def mix(value: int) -> int:
    """Return the SplitMix64 finaliser of a 64-bit integer: a bijection on [0, 2**64)."""
    value = ((value ^ (value >> _SHIFTS[0])) * _FIRST) & _MASK
    value = ((value ^ (value >> _SHIFTS[1])) * _SECOND) & _MASK
    return value ^ (value >> _SHIFTS[2])


def bits(key: int, ids: torch.Tensor) -> torch.Tensor:
    """Return 64 random bits per id.

    Args:
        key: Any integer, taken modulo 2**64; different keys give unrelated numbers.
        ids: int64 (N,), any values.

    Returns:
        int64 (N,), a new tensor on the device of `ids`: all 64 bits are used, so the sign varies.

    Raises:
        OptionError: `ids` is not int64.
    """
    if ids.dtype != torch.int64:
        cure = "Convert them with .to(torch.int64)."
        raise OptionError("sample ids", "a tensor of dtype torch.int64", str(ids.dtype), cure)
    out = ids * _signed(_GOLDEN)
    out += _signed(mix((key + _GOLDEN) & _MASK))
    out ^= _shifted(out, _SHIFTS[0])
    out *= _signed(_FIRST)
    out ^= _shifted(out, _SHIFTS[1])
    out *= _signed(_SECOND)
    out ^= _shifted(out, _SHIFTS[2])
    return out


def words(key: int, ids: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Return two independent 32-bit numbers per id: the halves of `bits`, high half first.

    Returns:
        Two int64 tensors (N,) with values in [0, 2**32), on the device of `ids`.
    """
    both = bits(key, ids)
    return _shifted(both, 32), both & 0xFFFF_FFFF


def uniform(key: int, ids: torch.Tensor) -> torch.Tensor:
    """Return one number per id, uniform over the multiples of 2**-24 in [0, 1).

    Returns:
        float32 (N,) on the device of `ids`; every value is exact, and 1.0 never occurs.
    """
    return _shifted(bits(key, ids), 40).to(torch.float32).mul_(2.0**-24)


def integers(key: int, ids: torch.Tensor, low: int, high: int) -> torch.Tensor:
    """Return one integer per id, uniform over [low, high) within a relative bias of (high - low) / 2**32.

    Returns:
        int64 (N,) on the device of `ids`.

    Raises:
        OptionError: `high - low` is below 1 or above 2**31.
    """
    return scale(words(key, ids)[0], high - low).add_(low)


def scale(word: torch.Tensor, span: int) -> torch.Tensor:
    """Return `floor(word * span / 2**32)`: 32-bit numbers mapped onto [0, span).

    Args:
        word: int64, any shape, values in [0, 2**32), as from `words`.
        span: How many integers to choose from, 1 to 2**31.

    Returns:
        A new int64 tensor of the same shape and device.

    Raises:
        OptionError: `span` is out of range.
    """
    if not 1 <= span <= MAX_SPAN:
        cure = "Ask for a range that holds an integer."
        raise OptionError("range of random integers", "1 to 2**31 values", str(span), cure)
    return (word * span).bitwise_right_shift_(32)


def _words(part: int | str) -> Iterator[int]:
    """Yield a part as unsigned 64-bit words; a string starts with a word for its length."""
    if isinstance(part, str):
        data = part.encode()
        yield _SIGN | len(data)
        for start in range(0, len(data), 8):
            yield int.from_bytes(data[start : start + 8], "little")
        return
    try:
        yield operator.index(part) & _MASK
    except TypeError:
        cure = "Give an integer, such as seed=0."
        raise OptionError("key of random numbers", "integers and strings", repr(part), cure) from None


def _signed(value: int) -> int:
    """Return the int64 with the bit pattern of an unsigned 64-bit integer."""
    return value - (1 << 64) if value & _SIGN else value


def _shifted(value: torch.Tensor, places: int) -> torch.Tensor:
    """Return a logical right shift: torch's `>>` on int64 copies the sign bit, the mask drops the copies."""
    return (value >> places).bitwise_and_(_MASK >> places)
