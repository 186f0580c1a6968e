"""Splits docs/clients.md into sections and runs their Python. For both environments of tools/end_to_end."""

import pathlib
import re

from weather import only_this_machine

TEXT = (pathlib.Path(__file__).parents[2] / "docs/clients.md").read_text()
SECTIONS = {section.partition("\n")[0]: section for section in TEXT.split("\n## ")}
OF_OPENAI2 = ["instructor", "litellm"]


def blocks(kind, section):
    return re.findall(rf"```{kind}\n(.*?)```", SECTIONS[section], re.DOTALL)


def here(text, url):
    return re.sub(r"http://127\.0\.0\.1:80[08]0", url, text).replace("openai/gpt-oss-20b", "tiny")


def run_section(section, url, capsys):
    """Runs the section's Python in this process, which has already imported most of it, and checks for a structured
    answer."""
    [form], [code] = blocks("python", "# Clients"), blocks("python", section)
    # The miniature model may think without end. Some of these packages then report an answer that is cut off.
    for left in range(4, -1, -1):
        try:
            with only_this_machine():
                exec(here(form + code, url), {"__name__": "documented"})
            break
        except Exception:
            if not left:
                raise
    told = capsys.readouterr().out
    # The miniature model invents the city. Python prints a text with an apostrophe in double quotes.
    assert re.search(r"""city=(['"]).*\1 degrees=-?\d+ sky='(clear|cloudy|rain)'""", told), told
