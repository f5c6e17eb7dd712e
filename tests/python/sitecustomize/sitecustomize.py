"""Makes kombu know `harrier://` in every Python of the suite that this runs: the suite's own and its workers'."""

import harrier.kombu  # noqa: F401
