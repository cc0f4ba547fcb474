"""Child processes: the environment that a program started by certigraph gets."""

import os

KEPT = frozenset(
    {
        *("PATH", "HOME", "USER", "LOGNAME", "SHELL", "TZ", "LANG", "LANGUAGE", "TMPDIR", "TEMP", "TMP", "JAVA_HOME"),
        *("LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH", "FONTCONFIG_PATH", "FONTCONFIG_FILE", "XDG_CACHE_HOME"),
        *("SYSTEMROOT", "SYSTEMDRIVE", "WINDIR", "COMSPEC", "PATHEXT", "USERPROFILE", "APPDATA", "LOCALAPPDATA"),
    }
)
"""Variables that programs need to start, to find their libraries and to write texts. None of them holds a key."""


def child_environment(*names: str) -> dict[str, str]:
    """The variables of this process that a child process may see: KEPT, LC_*, and those of `names`.

    Keys, passwords and addresses of services stay here: a program does not need them to do its work, and whoever can
    read its environment could read them.
    """
    allowed = KEPT | {name.upper() for name in names}
    return {name: value for name, value in os.environ.items() if name.upper() in allowed or name.startswith("LC_")}
