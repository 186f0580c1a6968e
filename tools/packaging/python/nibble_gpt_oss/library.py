"""libnibble from Python, by ctypes: a model inside this process, without a server.

    from nibble_gpt_oss import library

    with library.Model("tiny", temperature=0) as model, model.session() as session:
        for event in session.ask("What is 17 + 25?"):
            if event.kind == "text": print(event.text, end="", flush=True)

Options are the flags of `nibble run` and `nibble serve`, with underscores: max_tokens=100. nibble.h has the rules.
The library is found in NIBBLE_LIBRARY (a path), in lib/ next to this module, or where the system looks for libraries.
"""

import ctypes
import dataclasses
import json
import os
import pathlib

KINDS = {1: "text", 2: "reasoning", 3: "call", 4: "finished"}
REASONS = {0: None, 1: "stop token", 2: "stop string", 3: "max tokens", 4: "context full", 5: "cancelled"}
TIMEOUT = 1


class Error(RuntimeError):
    """A function of the library failed; `status` is its nibble_status."""

    def __init__(self, status, message):
        super().__init__(message)
        self.status = status


class _Event(ctypes.Structure):
    _fields_ = [
        ("struct_bytes", ctypes.c_size_t),
        ("type", ctypes.c_int32),
        ("finish", ctypes.c_int32),
        ("text", ctypes.c_char_p),
        ("text_bytes", ctypes.c_size_t),
        ("call_name", ctypes.c_char_p),
        ("call_id", ctypes.c_char_p),
        ("tokens", ctypes.POINTER(ctypes.c_int32)),
        ("num_tokens", ctypes.c_size_t),
        ("num_prompt_tokens", ctypes.c_int32),
        ("num_cached_tokens", ctypes.c_int32),
        ("num_output_tokens", ctypes.c_int32),
        ("prefill_seconds", ctypes.c_double),
        ("decode_seconds", ctypes.c_double),
    ]


@dataclasses.dataclass
class Event:
    kind: str  # "text", "reasoning", "call" or "finished"
    text: str
    call_name: str
    call_id: str
    tokens: list
    reason: str  # of "finished": why the answer ended
    num_prompt_tokens: int
    num_cached_tokens: int
    num_output_tokens: int


def _load():
    beside = pathlib.Path(__file__).parent / "lib" / "libnibble.so.0"
    path = os.environ.get("NIBBLE_LIBRARY") or (beside if beside.exists() else "libnibble.so.0")
    library = ctypes.CDLL(str(path))
    for name in ("nibble_last_error", "nibble_version"):
        getattr(library, name).restype = ctypes.c_char_p
    for name in ("nibble_options_free", "nibble_model_close", "nibble_session_close", "nibble_session_cancel"):
        getattr(library, name).argtypes, getattr(library, name).restype = [ctypes.c_void_p], None
    return library


_library = _load()


def _call(name, *arguments):
    """Calls a function that returns a status. None becomes NULL, a str UTF-8."""
    encoded = [argument.encode() if isinstance(argument, str) else argument for argument in arguments]
    status = getattr(_library, name)(*encoded)
    if status: raise Error(status, _library.nibble_last_error().decode())


def version():
    return _library.nibble_version().decode()


class _Handle:
    """An object of the library. It is freed by close(), at the end of a `with` block, or with this object."""

    def __init__(self, free):
        self._free, self._handle = free, ctypes.c_void_p()

    def close(self):
        if self._handle: self._free(self._handle)
        self._handle = ctypes.c_void_p()

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.close()

    def __del__(self):
        self.close()


class _Options(_Handle):
    def __init__(self, values):
        super().__init__(_library.nibble_options_free)
        _call("nibble_options_create", ctypes.byref(self._handle))
        for name, value in values.items():
            for one in value if isinstance(value, (list, tuple)) else [value]:
                text = "on" if one is True else "off" if one is False else str(one)
                _call("nibble_options_set", self._handle, name.replace("_", "-"), text)


class Model(_Handle):
    """A loaded model. name: a folder, a file, a bundled name (tiny), or an entry of the Hugging Face cache."""

    def __init__(self, name, **options):
        super().__init__(_library.nibble_model_close)
        with _Options(options) as given:
            _call("nibble_model_open", str(name), given._handle, ctypes.byref(self._handle))

    def session(self, **options):
        return Session(self, options)

    def encode(self, text):
        """Returns the tokens of `text`, in which no control token is recognised."""
        data, count = text.encode(), ctypes.c_size_t(0)
        _call("nibble_model_encode", self._handle, data, ctypes.c_size_t(len(data)), None, ctypes.byref(count))
        tokens = (ctypes.c_int32 * count.value)()
        _call("nibble_model_encode", self._handle, data, ctypes.c_size_t(len(data)), tokens, ctypes.byref(count))
        return list(tokens)


class Session(_Handle):
    """A conversation. Used by one thread at a time, except for cancel()."""

    def __init__(self, model, options):
        super().__init__(_library.nibble_session_close)
        self._event = _Event(struct_bytes=ctypes.sizeof(_Event))
        with _Options(options) as given:
            _call("nibble_session_open", model._handle, given._handle, ctypes.byref(self._handle))

    def add(self, message):
        """Appends a message in the form of OpenAI's Chat Completions, as a dict."""
        _call("nibble_session_add_json", self._handle, json.dumps(message))

    def set_tools(self, tools):
        _call("nibble_session_set_tools", self._handle, json.dumps(tools))

    def set_json_schema(self, schema):
        _call("nibble_session_set_json_schema", self._handle, None if schema is None else json.dumps(schema))

    def ask(self, question):
        """Sends a question of the user; yields the events of the answer. Leaving the loop early cancels it."""
        _call("nibble_session_send", self._handle, question)
        return self._events()

    def answer(self):
        """Answers the messages so far; yields the events."""
        _call("nibble_session_answer", self._handle)
        return self._events()

    def cancel(self):
        _library.nibble_session_cancel(self._handle)

    def _events(self):
        self._runs = True
        try:
            while self._runs:
                event = self._next()
                if event: yield event
        finally:  # the caller left its loop early
            if self._runs and self._handle:
                self.cancel()
                while self._runs: self._next()

    def _next(self):
        """Returns the next event, or None if none arrived in time, so that Python sees ctrl-C between two calls."""
        try:
            _call("nibble_session_next_event", self._handle, 100, ctypes.byref(self._event))
        except Error as error:
            if error.status == TIMEOUT: return None
            self._runs = False
            raise
        event = self._event
        kind = KINDS.get(event.type)
        if not kind: return None  # an event of a later version
        self._runs = kind != "finished"
        return Event(
            kind,
            event.text.decode(),
            event.call_name.decode(),
            event.call_id.decode(),
            event.tokens[: event.num_tokens],
            REASONS.get(event.finish),
            event.num_prompt_tokens,
            event.num_cached_tokens,
            event.num_output_tokens,
        )
