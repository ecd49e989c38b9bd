"""The base of the generated method classes.

A method object is made for each frame, so the generated classes are plain classes with slots: cheaper to make than a
NamedTuple, never equal to a method of another class, and never falsy if a method has no arguments.
"""

from __future__ import annotations

from typing import ClassVar


class Method:
    """One AMQP method with its arguments as attributes, without reserved ones. Immutable."""

    __slots__: ClassVar[tuple[str, ...]] = ()
    CLASS_ID: ClassVar[int]
    METHOD_ID: ClassVar[int]
    KEY: ClassVar[int]
    """`CLASS_ID << 16 | METHOD_ID`: the first four bytes of the payload, read as one number."""
    NAME: ClassVar[str]
    """The method's name in the specification, such as `basic.publish`."""
    HAS_CONTENT: ClassVar[bool] = False
    """A content header and body frames follow this method."""

    def encode(self) -> bytes:
        """Return the whole method payload, class and method id included.

        Raises struct.error when a number is out of range or a short string is longer than 255 bytes.
        """
        raise NotImplementedError

    def __eq__(self, other: object) -> bool:
        if type(self) is not type(other):
            return NotImplemented
        return all(getattr(self, name) == getattr(other, name) for name in self.__slots__)

    def __hash__(self) -> int:
        return hash((type(self), *(getattr(self, name) for name in self.__slots__)))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{name}={getattr(self, name)!r}' for name in self.__slots__)})"
