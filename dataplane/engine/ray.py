"""The engine on a Ray cluster: each unit is a Ray task, and Ray alone decides where it runs and what is tried again.

The project's folder is seen under the same path on every machine, or the cluster is this machine; the tables may lie in an object store.
Workers write fragments and give back small records, as processes of one machine do, so that digests are the same. A task that is lost
with its worker or machine, or preempted, is run again elsewhere; what it had half written is swept like that of any killed worker.
"""

from __future__ import annotations

import logging
import os
import socket
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from dataplane import lockfile
from dataplane.engine.mapping import Task
from dataplane.engine.units import Unit
from dataplane.errors import EnvironmentFault
from dataplane.settings import RaySettings

MAX_LOST_WORKERS = 3  # of one unit; preempted machines are not counted by Ray
WAITING_PER_CPU = 4  # units handed over before the first of them is done
KNOCK_SECONDS = 10
PREFIX = "TERRAPLANE_"
SECRETS = ("_KEY",)  # the ends of names whose values the cluster's dashboard would show


def run(task: Task, units: Sequence[Unit], todo: list[int], root: Path, settings: RaySettings) -> Iterator[tuple[int, Any]]:
    """Works on the units at the places `todo`.

    Args:
        task: What to do with a unit's work.
        units: All units.
        todo: Places of those that are to be done.
        root: Folder of the project.
        settings: Which cluster, and what a unit needs.

    Yields:
        (place, result), in the order in which they finish.

    Raises:
        EnvironmentFault: There is no cluster, it cannot see the project, or a unit's workers kept dying.
        Exception: What the task raised.
    """
    if not todo:
        return
    with _cluster(settings) as ray:
        kept = ray.put(task)
        remote = ray.remote(_work).options(
            num_cpus=settings.cpus, memory=settings.memory_bytes or None, max_retries=MAX_LOST_WORKERS, scheduling_strategy="SPREAD"
        )
        pending: dict[Any, int] = {}
        places = iter(todo)
        try:
            while True:
                room = max(1, int(WAITING_PER_CPU * ray.cluster_resources().get("CPU", 1)))
                for i in places:
                    pending[remote.remote([kept], kept.hex(), str(root.resolve()), units[i].work)] = i
                    if len(pending) >= room:
                        break
                if not pending:
                    return
                (done,), _ = ray.wait(list(pending), num_returns=1)
                i = pending.pop(done)
                yield i, _result(ray, done, i)
        finally:
            for reference in pending:
                ray.cancel(reference, force=True)


def _result(ray: Any, reference: Any, place: int) -> Any:
    try:
        return ray.get(reference)
    except ray.exceptions.RayTaskError as error:
        raise error.cause from None
    except ray.exceptions.RayError as error:
        raise EnvironmentFault(
            f"the workers of unit {place} died {MAX_LOST_WORKERS + 1} times: {str(error).splitlines()[0]}",
            where="ray",
            fix="look for an out-of-memory kill in the cluster's logs; raise ray.cpus or ray.memory_bytes in settings.yaml, then run again",
        ) from None


@contextmanager
def _cluster(settings: RaySettings) -> Iterator[Any]:
    """The ray module, connected; a connection that was there before stays."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # it would report to its makers
    try:
        import ray
    except ImportError:
        raise EnvironmentFault("engine: ray needs the package ray", where="settings.yaml", fix="pip install 'terraplane[ray]'") from None
    if ray.is_initialized():
        yield ray
        return
    try:
        _knock(settings.address)
        ray.init(address=settings.address, logging_level=logging.ERROR, log_to_driver=False, runtime_env={"env_vars": _environment()})
    except (OSError, ray.exceptions.RayError) as error:
        raise EnvironmentFault(
            f"no Ray cluster at {settings.address!r}: {str(error).splitlines()[0]}",
            where="settings.yaml",
            fix="start one (`ray start --head`), or set ray.address; `local` starts one on this machine",
        ) from None
    try:
        yield ray
    finally:
        ray.shutdown()


def _knock(address: str) -> None:
    """Asks whether anybody listens at HOST:PORT: Ray itself would ask for five minutes.

    Raises:
        OSError: Nobody does.
    """
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if port.isdigit():
        socket.create_connection((host, int(port)), KNOCK_SECONDS).close()


def _environment() -> dict[str, str]:
    """What workers have to know of this process: settings that stand in its environment, secrets left out."""
    names = [name for name in os.environ if name.startswith(PREFIX) and not name.endswith(SECRETS)]
    return {name: os.environ[name] for name in names} | {"RAY_USAGE_STATS_ENABLED": "0"}


_opened: dict[str, Task] = {}


def _work(kept: list[Any], key: str, root: str, work: Any) -> Any:
    """One unit, in a worker: models are loaded for the first one only.

    Args:
        kept: The task's reference; in a list, so that it is fetched here and once.
        key: Name of the task.
        root: Folder of the project.
        work: The unit's work.
    """
    if key not in _opened:
        import ray

        _enter(root)
        _opened.clear()
        _opened[key] = ray.get(kept[0])
    return _opened[key](work)


def _enter(root: str) -> None:
    """Goes into the project, and refuses to work with other code than the one that started the run."""
    try:
        os.chdir(root)
    except OSError as error:
        raise EnvironmentFault(
            f"a worker cannot see the project: {error}", where="ray", fix="put the project where all machines see it under the same path"
        ) from None
    lockfile.verify(Path())
