"""Locks: one holder, never a dead one."""

import signal
import socket

import pytest
from conftest import child

from solar_tf.errors import UserError
from solar_tf.run import locks
from solar_tf.run.locks import shares_locks, try_lock

HOLD = """
import signal, sys
from solar_tf.run.locks import try_lock
with try_lock(sys.argv[1]) as free:
    assert free
    print("ready", flush=True)
    signal.pause()
"""


def is_free(path):
    with try_lock(path) as free:
        return free


def test_a_lock_is_held_by_one_process_and_free_at_once_when_that_is_killed(tmp_path):
    path = tmp_path / "chunks" / "chunk_00.lock"
    with child(HOLD, path) as holder:
        assert not is_free(path)
        assert not is_free(path)  # a failed try leaves the holder's lock alone
        holder.send_signal(signal.SIGKILL)
        holder.wait()
        assert is_free(path)


def test_a_lock_ends_with_its_block(tmp_path):
    path = tmp_path / "lock"
    for _ in range(2):
        with try_lock(path) as free:
            assert free
            assert not is_free(path)
    with pytest.raises(ValueError), try_lock(path):
        raise ValueError
    assert is_free(path)


@pytest.mark.parametrize("left", [b"", b"elsewhere 77\n", bytes(range(256)) * 100])
def test_a_dead_holder_is_replaced_and_a_living_one_leaves_its_name(tmp_path, left):
    """Also one on another machine, where locks are shared; also a lock file of nonsense."""
    path = tmp_path / "lock"
    path.write_bytes(left)
    with try_lock(path) as free:
        assert free
        assert path.read_text().split()[0] == socket.gethostname()
    assert path.read_text() == ""


def test_where_locks_do_not_reach_other_machines_their_holders_are_an_error(tmp_path, monkeypatch):
    monkeypatch.setattr(locks, "shares_locks", lambda path: False)
    path = tmp_path / "lock"
    path.write_text("elsewhere 77\n")
    with pytest.raises(UserError, match=r"process 77 on elsewhere .*delete the file if it is"):
        is_free(path)
    assert path.read_text() == "elsewhere 77\n"
    path.write_text(f"{socket.gethostname()} 77\n")  # here, the kernel knows that it is dead
    assert is_free(path)


MOUNTS = """\
22 27 0:21 / /proc rw,relatime - proc proc rw
27 1 254:0 / / rw,relatime - ext4 /dev/vda rw,discard
28 27 0:25 / /run\\040dir rw - fuse.sshfs me@host:/ rw,user_id=0
40 27 0:30 / /nfs rw,relatime shared:1 - nfs4 server:/x rw,vers=4.2,hard,local_lock=none
41 27 0:31 / /nolock rw - nfs server:/y rw,vers=3,nolock,local_lock=all
42 40 0:32 / /nfs/inner rw - 9p share rw
43 27 0:33 / /twice rw - cifs //server/z rw
44 27 0:34 / /twice rw - xfs /dev/vdb rw
"""


@pytest.mark.parametrize(
    ("path", "shared"),
    [
        ("/home/me/run", True),
        ("/run dir/run", False),
        ("/run directory", True),
        ("/nfs/run", True),
        ("/nolock/run", False),
        ("/nfs/inner/run", False),
        ("/twice/run", True),
    ],
)
def test_file_systems_are_told_apart(tmp_path, path, shared):
    (tmp_path / "mounts").write_text(MOUNTS)
    assert shares_locks(path, tmp_path / "mounts") == shared


def test_without_a_list_of_mounts_nothing_is_held_against_a_folder(tmp_path):
    assert shares_locks(tmp_path, tmp_path / "missing")
    (tmp_path / "mounts").write_text("nonsense\n")
    assert shares_locks(tmp_path, tmp_path / "mounts")
    assert shares_locks(tmp_path)
