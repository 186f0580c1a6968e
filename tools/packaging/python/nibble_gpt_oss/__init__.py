"""nibble, an inference engine for OpenAI's gpt-oss models, as a Python package that starts a server.

    import nibble_gpt_oss

    with nibble_gpt_oss.Server("tiny") as server:
        client = openai.OpenAI(base_url=server.base_url, api_key="none")

The command `nibble` is the same program, with all its commands.
"""

import os
import pathlib
import re
import subprocess
import sys
import threading

PROGRAM = pathlib.Path(__file__).parent / "bin" / "nibble"


class ServerError(RuntimeError):
    """The server ended before it could be used; the text is what it wrote to stderr."""


class Server:
    """A server of one model on a free port of this machine. It ends with close(), or at the end of a `with` block.

    model: a folder, a file, a bundled name (tiny), or an entry of the Hugging Face cache (openai/gpt-oss-20b).
    flags: further flags of `nibble serve`, as a list: ["--context", "8192"].
    The constructor returns when the model is loaded.
    """

    def __init__(self, model, flags=()):
        command = [str(PROGRAM), "serve", str(model), "--host", "127.0.0.1", "--port", "0", *map(str, flags)]
        self._process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        self._errors = []
        self._readers = [self._read(self._process.stderr, self._errors)]
        for line in self._process.stdout:
            if match := re.match(r"Serving .* on (http://\S+)", line):
                self.url = match[1]
                break
        else:
            self._process.wait()
            self._readers[0].join()
            raise ServerError("".join(self._errors).strip())
        self._readers.append(self._read(self._process.stdout, []))

    @staticmethod
    def _read(stream, lines):
        """Reads `stream` to its end in a thread, so that the server never blocks; keeps the last 100 lines."""

        def read():
            for line in stream:
                lines.append(line)
                del lines[:-100]

        thread = threading.Thread(target=read, daemon=True)
        thread.start()
        return thread

    @property
    def base_url(self):
        """The base URL for clients of OpenAI's API."""
        return self.url + "/v1"

    def close(self):
        """Ends the server; running answers get up to ten seconds."""
        self._process.terminate()
        try:
            self._process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        for reader in self._readers:
            reader.join()
        self._process.stdout.close()
        self._process.stderr.close()

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.close()


def main():
    """The command `nibble`: replaces this process with the program."""
    os.execv(PROGRAM, ["nibble", *sys.argv[1:]])
