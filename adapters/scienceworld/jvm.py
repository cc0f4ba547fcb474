"""Starts the JVM in which ScienceWorld's simulator runs, deterministic and small, and opens py4j's way into it.

It is not left to the package's `ScienceWorldEnv`, which takes no JVM options and lets py4j repeat a step whose answer
got lost.
"""

import subprocess
import sys
import tempfile
from typing import TYPE_CHECKING, Any

from certigraph.state.endings import Fault

if TYPE_CHECKING:
    from py4j.java_gateway import JavaGateway

JVM_FLAGS = ("-XX:+UnlockExperimentalVMOptions", "-XX:hashCode=2", "-Xmx512m", "-XX:+UseSerialGC")
"""hashCode=2 makes the simulator deterministic: its sets iterate in the order of identity hashes."""


def launch() -> tuple[Any, "JavaGateway"]:
    """The JVM's process and the way into it. Its output goes nowhere, and Ctrl-C in the terminal does not reach it.

    Raises:
        Fault: ("environment") the package or Java is missing; says how to install it.
    """
    try:
        from py4j.java_gateway import GatewayParameters, JavaGateway, launch_gateway
        from scienceworld.constants import JAR_PATH
    except ImportError as error:
        fix = "pip install 'certigraph[scienceworld]'"
        raise Fault("environment", f"ScienceWorld needs the package {error.name}: {fix}") from error
    try:
        port, token, process = launch_gateway(
            classpath=JAR_PATH, javaopts=list(JVM_FLAGS), java_path=None,
            die_on_exit=True, create_new_process_group=True, enable_auth=True, return_proc=True,
            cwd=tempfile.gettempdir(),  # the simulator leaves a table of its object types where it starts
        )  # fmt: skip
    except (OSError, ValueError, subprocess.SubprocessError) as error:
        raise Fault(
            "environment",
            f"ScienceWorld needs Java 17 or newer, `java` on the PATH or under JAVA_HOME ({error}): "
            f"{_INSTALL.get(sys.platform, 'install it from https://adoptium.net')}",
        ) from error
    # Memory management would call the JVM from Python's garbage collector, at any moment and in any thread.
    parameters = GatewayParameters(port=port, auth_token=token, enable_memory_management=False)
    gateway = JavaGateway(gateway_parameters=parameters, java_process=process)
    gateway.set_gateway_client(_once(parameters))
    return process, gateway


_INSTALL = {
    "linux": "apt install openjdk-17-jre-headless (Debian, Ubuntu), or your system's package of Java 17",
    "darwin": "brew install openjdk@17",
}


def _once(parameters: Any) -> Any:
    """A client that sends every command once.

    py4j's own repeats a command whose answer got lost, which would act twice, and prints failures on the terminal.
    """
    from py4j.java_gateway import GatewayClient
    from py4j.protocol import Py4JNetworkError

    class Once(GatewayClient):  # type: ignore[misc]
        def send_command(self, command: str, retry: bool = True, binary: bool = False) -> Any:
            connection = self._get_connection()
            try:
                answer = connection.send_command(command)
            except Py4JNetworkError:
                connection.close()
                raise
            self._give_back_connection(connection)
            return answer

    return Once(gateway_parameters=parameters)
