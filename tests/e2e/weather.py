"""What client tests request, and a check that no client contacts another machine. For both environments of
tools/end_to_end."""

import contextlib
import sys
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

QUESTION = "What is the weather in Oslo?"
MESSAGES = [{"role": "user", "content": QUESTION}]


class Weather(BaseModel):
    """The weather in a city. All is bounded: the miniature model writes on for ever where the form lets it."""

    model_config = ConfigDict(extra="forbid")
    city: str = Field(max_length=12)
    degrees: int = Field(ge=-50, le=50)
    sky: Literal["clear", "cloudy", "rain"]


def get_weather(city: Literal["Oslo", "Rome"]) -> str:
    """The weather in a city.

    Args:
        city: Its name.
    """
    return f"7 degrees in {city}"


_watch = {"is_on": False, "seen": []}


def _hear(event, arguments):
    if not _watch["is_on"]:
        return
    host = None
    if event == "socket.getaddrinfo":
        host = arguments[0]
    elif event == "socket.connect" and isinstance(arguments[1], tuple):
        host = arguments[1][0]
    if host is not None and str(host) not in ("127.0.0.1", "localhost", "::1"):
        _watch["seen"].append(f"{event} {host}")
        raise OSError(f"no address but this machine's is reached in tests: {host}")


sys.addaudithook(_hear)  # this hook cannot be removed, so it is switched on and off


@contextlib.contextmanager
def only_this_machine():
    """Makes connections to other machines fail, and reports them at the end even if the client hides them."""
    _watch.update(is_on=True, seen=[])
    try:
        yield
    finally:
        _watch["is_on"] = False
    assert _watch["seen"] == []


def first_that_ends(ask, cut_off):
    """Returns the first of ten answers, each with another seed, that is not cut off. Only the model itself can end a
    text without a bound."""
    for seed in range(10):
        try:
            return ask(seed)
        except cut_off:
            pass
    raise AssertionError("ten answers were cut off")
