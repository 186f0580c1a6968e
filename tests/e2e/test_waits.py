"""Tests tools/waits on the machine code of a kernel for sm_90a."""

import subprocess
import sys

from test_cli import ROOT

# The beginning of a kernel in cuobjdump's format. It loads a row's number and the start of the rows, then the
# row, then uses the row's second word.
CODE = """
\t\tFunction : _ZN6nibble13attend_kernelE
        /*0060*/                   VIADD R108, R108, UR6 ;                  /* 0x000000066c6c7c36 */
                                                                            /* 0x001fc80008000000 */
        /*0070*/                   IMAD.WIDE R8, R108, 0x10, R8 ;           /* 0x000000106c087825 */
                                                                            /* 0x002fcc00078e0208 */
        /*0080*/                   LDG.E.128 R8, desc[UR8][R8.64] ;         /* 0x0000000808087981 */
                                                                            /* 0x000ee2000c1e1d00 */
        /*0090*/                   IMAD.MOV.U32 R0, RZ, RZ, RZ ;            /* 0x000000ffff007224 */
                                                                            /* 0x000fe200078e00ff */
        /*00e0*/               @P0 IADD3 R2, R9, 0x1, -R2 ;                 /* 0x0000000109020810 */
                                                                            /* 0x008fe40007ffe802 */
"""


def waits(kernel, *flags):
    return subprocess.run([sys.executable, ROOT / "tools" / "waits", kernel, *flags], input=CODE, capture_output=True, text=True, timeout=60)


def test_the_use_of_a_loaded_register_waits_for_the_barrier_that_the_load_started():
    lines = waits("attend").stdout.splitlines()
    assert lines[0] == "_ZN6nibble13attend_kernelE"
    # The instruction at 0090 waits for nothing.
    assert [line.split()[0] for line in lines[1:]] == ["0060", "0070", "0080", "00e0"]
    load, use = lines[3], lines[4]
    assert "LDG.E.128 R8" in load and "starts 3" in load and "waits" not in load
    assert "IADD3 R2, R9" in use and "waits 3" in use


def test_all_instructions_are_shown_on_request_and_a_kernel_that_is_not_there_is_said():
    assert len(waits("attend", "--all").stdout.splitlines()) == 6
    done = waits("project")
    assert done.returncode == 1 and "no function on standard input has 'project' in its name" in done.stderr
