//! How large messages are that clients publish.

/// Classes of a histogram of sizes: the last one has all that are larger.
pub const BODY_SIZE_CLASSES: usize = 9;

/// The largest body of each class but the last, in bytes: those of RabbitMQ, so that its dashboards and alerts fit.
pub const BODY_SIZE_BOUNDS: [u64; BODY_SIZE_CLASSES - 1] =
    [100, 1_000, 10_000, 100_000, 1_000_000, 10_000_000, 50_000_000, 100_000_000];

/// Bodies by classes, and the bytes of all.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct BodySizeStats {
    pub classes: [u64; BODY_SIZE_CLASSES],
    pub sum_bytes: u64,
}

impl BodySizeStats {
    /// One more body. The smallest, of which there are most, take one comparison and no call.
    #[inline]
    pub fn record(&mut self, bytes: usize) {
        self.record_alike(bytes, 1);
    }

    /// More bodies, so many of one size.
    #[inline]
    pub(crate) fn record_alike(&mut self, bytes: usize, bodies: u64) {
        let bytes = bytes as u64;
        self.sum_bytes += bytes * bodies;
        if bytes <= BODY_SIZE_BOUNDS[0] {
            self.classes[0] += bodies;
        } else {
            self.record_larger(bytes, bodies);
        }
    }

    #[cold]
    fn record_larger(&mut self, bytes: u64, bodies: u64) {
        self.classes[BODY_SIZE_BOUNDS.partition_point(|&bound| bound < bytes)] += bodies;
    }

    pub fn add(&mut self, other: &BodySizeStats) {
        self.classes.iter_mut().zip(other.classes).for_each(|(count, other)| *count += other);
        self.sum_bytes += other.sum_bytes;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_body_belongs_to_the_first_class_that_it_fits() {
        let mut sizes = BodySizeStats::default();
        for bytes in [0, 100, 101, 1_000, 100_000_000, 100_000_001] {
            sizes.record(bytes);
        }
        let mut alike = sizes;
        [(99, 3), (1_000, 2)].into_iter().for_each(|(bytes, bodies)| alike.record_alike(bytes, bodies));
        assert_eq!((alike.classes, alike.sum_bytes), ([5, 4, 0, 0, 0, 0, 0, 1, 1], sizes.sum_bytes + 2_297));
        let mut twice = sizes;
        twice.add(&sizes);
        assert_eq!(sizes.classes, [2, 2, 0, 0, 0, 0, 0, 1, 1]);
        assert_eq!(twice, BodySizeStats { classes: [4, 4, 0, 0, 0, 0, 0, 2, 2], sum_bytes: 400_002_404 });
    }
}
