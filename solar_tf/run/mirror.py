"""A folder that may be the mirror of a store: what the stages say when they need or make a file.

For a run on a disk all of it says nothing and costs nothing.
"""

from dataclasses import dataclass, field
from pathlib import Path

from solar_tf.errors import UserError
from solar_tf.run.checksums import lost
from solar_tf.run.files import discard
from solar_tf.run.store import CONFIG, Store


@dataclass(frozen=True)
class Mirror:
    """A folder, and the store that it is the mirror of, if it is."""

    root: Path
    store: Store | None = field(default=None, compare=False, repr=False)

    @property
    def location(self):
        """What to say to the user, and to write after --run."""
        return str(self.store or self.root)

    def name_of(self, path):
        """A path of the run by its name in the manifest."""
        return path.relative_to(self.root).as_posix()

    def _names(self, paths):
        return [self.name_of(path) for path in paths]

    def has(self, path):
        """Whether a file or folder is there; one that was not published yet is published."""
        if self.store is None:
            return path.exists()
        if not self.store.has(self.name_of(path)) and path.exists():
            self.publish(path)
        return self.store.has(self.name_of(path))

    def lost(self, files):
        """The names of files that are missing or of another size than their facts say."""
        if self.store is None:
            return lost(self.root, files)
        sizes = self.store.sizes()
        return [name for name, (size, _) in files.items() if sizes.get(name) != size]

    def stored(self, folder):
        """The paths of what is in a folder of the store, sorted; on a disk it is in place."""
        if self.store is None:
            return []
        names = sorted(self.store.sizes(self.name_of(folder)))
        return [self.root / name.removesuffix(".zip") for name in names]

    def count_bytes(self):
        """How much room the run takes."""
        if self.store:
            return sum(self.store.sizes().values())
        return sum(path.stat().st_size for path in self.root.rglob("*") if path.is_file())

    def fetch(self, *paths, facts=None, fresh=False):
        """Have these files and folders here, as far as the store has them."""
        if self.store:
            self.store.fetch(self._names(paths), facts, fresh)

    def facts(self, folder):
        """Where the small files of a chunk's folder are, without its arrays."""
        return (self.store and self.store.facts(self.name_of(folder))) or folder

    def publish(self, *paths, replace=False):
        """Let all machines see these files and folders, which are complete."""
        if self.store:
            self.store.publish(self._names(paths), replace)

    def drop(self, *paths):
        """Delete files and folders here and there."""
        for path in paths:
            if path.is_dir():
                discard(path)
            else:
                path.unlink(missing_ok=True)
        if self.store and paths:
            self.store.drop(self._names(paths))

    # The run as a whole.

    def refresh(self):
        """Whether there may be a run: a mirror has the config that its store has now."""
        return self.store is None or self.store.refresh()

    def start(self):
        """Before a run is made: what a mirror has of one that is gone from the store is gone."""
        if not self.refresh():
            self.store.clear_mirror()

    def require_same(self):
        """UserError if another process has put another run's config there."""
        mine = (self.root / CONFIG).read_bytes()
        if self.store and self.store.refresh() and (self.root / CONFIG).read_bytes() != mine:
            raise UserError(
                f"{self.location}: another preprocess.py is making another run there: "
                "choose another --run"
            )
