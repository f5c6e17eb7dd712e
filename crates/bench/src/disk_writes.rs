//! The `disk` command: how fast a disk makes groups durable that are written as the store writes them.
//!
//! One group is written at a time, by the store's own disk, to a segment that was written through before.

use std::collections::BTreeMap;
use std::path::PathBuf;

use gauge::validity;
use report::document::{LoopMode, MeasuredSeries, SeriesPoint};
use report::{OsuTable, ProgressLine};
use store::limits::{BLOCK_BYTES, GROUP_BYTES_MAX};

use crate::limits::{
    DISK_FREE_BYTES_MIN, DISK_GROUPS_DEFAULT, DISK_GROUPS_MAX, DISK_WRITTEN_BYTES_DEFAULT, DISK_WRITTEN_BYTES_MAX,
};
use crate::written_segment::{TARGET, WrittenSegment};
use harness::arguments::{OptionSpec, ParsedOptions, UsageError, option};
use harness::command_spec::CommandSpec;
use harness::failure::CommandFailure;
use harness::measure_options::{EFFORT, MeasureOptions, OUTPUT};
use harness::role_protocol::MessageCounts;
use harness::run_recorder::{RunRecorder, check_interrupted};

const OWN: &[OptionSpec] = &[
    option("dir", Some('d'), "FOLDER", "a folder on the disk to measure (default: the current one)"),
    option("bytes", Some('m'), "N,…", "bytes of a group: multiples of 4096 up to 1 MiB (default 4096,65536,1048576)"),
    option("groups", Some('n'), "N", "groups of each size (default 2000, and 1 GiB at most)"),
];

const ABOUT: &str = "\
Writes groups as a log of the store does: one at a time, each durable before the next one, by direct, synced writes over
blocks that were written before. An operation is one group. This is the floor of a persistent message's confirm on this
disk. It makes a folder with a segment of 64 MiB in the given folder, and removes it at the end. A folder in memory
(tmpfs) says nothing about a disk.";

const EXAMPLES: &[(&str, &str)] = &[
    ("disk --dir /var/lib/harrier", "the disk of a broker's state folder, groups of 4 KiB, 64 KiB and 1 MiB"),
    ("disk --bytes 4096 --groups 20000 --runs 5", "lone messages on the current folder's disk, with medians"),
    ("disk --dir /mnt/nvme --json nvme.json", "a document for harrier bench compare"),
];

/// The options of `disk` itself.
#[derive(Debug, PartialEq, Eq)]
struct DiskOptions {
    dir: PathBuf,
    bytes: Vec<usize>,
    /// As many as the default allows if not given.
    groups: Option<u64>,
}

impl DiskOptions {
    fn read(given: &ParsedOptions) -> Result<Self, UsageError> {
        let bytes = given.list("bytes", &[4_096, 65_536, 1_048_576], BLOCK_BYTES, GROUP_BYTES_MAX)?;
        if let Some(odd) = bytes.iter().find(|bytes| !bytes.is_multiple_of(BLOCK_BYTES)) {
            return Err(UsageError(format!("--bytes: {odd} is not a multiple of {BLOCK_BYTES}")));
        }
        let groups = given.number_if_given("groups", 1, DISK_GROUPS_MAX)?;
        let largest = bytes.iter().copied().max().unwrap_or(BLOCK_BYTES) as u64;
        if groups.is_some_and(|groups| groups * largest > DISK_WRITTEN_BYTES_MAX) {
            let most = DISK_WRITTEN_BYTES_MAX / largest;
            return Err(UsageError(format!("--groups: at most {most} of {largest} bytes, which are 256 GiB")));
        }
        Ok(Self { dir: given.text("dir").unwrap_or(".").into(), bytes, groups })
    }

    /// How many groups of a size are written.
    fn counts(&self, bytes: usize) -> MessageCounts {
        let usual = DISK_GROUPS_DEFAULT.min(DISK_WRITTEN_BYTES_DEFAULT / bytes as u64);
        MessageCounts::with_tenth(self.groups.unwrap_or(usual))
    }
}

/// The command as declared.
pub(super) fn declared() -> CommandSpec {
    CommandSpec::new("harrier bench disk [OPTIONS]", ABOUT, &[OWN, EFFORT.split_at(1).0, OUTPUT], EXAMPLES)
}

/// Runs the command.
///
/// # Errors
/// A usage error, a folder that cannot be written, too little space, a write that failed.
pub fn run(words: &[String]) -> Result<(), CommandFailure> {
    let Some(given) = declared().given(words)? else { return Ok(()) };
    let (setup, options) = (MeasureOptions::read(&given)?, DiskOptions::read(&given)?);
    if !options.dir.is_dir() {
        return Err(UsageError(format!("--dir: there is no folder {}", options.dir.display())).into());
    }
    setup.output.prepare()?;
    let mut segment = WrittenSegment::make(&options.dir, DISK_FREE_BYTES_MIN)?;
    let mut record = RunRecorder::begin("disk", words, &given, &setup, &[]);
    record.document.targets.push(segment.facts());
    let list: Vec<String> = options.bytes.iter().map(usize::to_string).collect();
    record.note_option("bytes", list.join(","));
    record.note_option("groups", "2000, and 1 GiB at most");
    let outcome = measure(&mut record, &setup, &options, &mut segment);
    record.end(outcome)
}

fn measure(
    record: &mut RunRecorder,
    setup: &MeasureOptions,
    options: &DiskOptions,
    segment: &mut WrittenSegment,
) -> Result<(), CommandFailure> {
    let progress = ProgressLine::begin();
    record.document.series.push(MeasuredSeries {
        benchmark: "disk".to_owned(),
        target: TARGET.to_owned(),
        pace: LoopMode::Closed,
        parameters: BTreeMap::new(),
        axis: "size_bytes".to_owned(),
        points: Vec::new(),
    });
    let table = match setup.output.format.is_incremental() {
        true => Some(OsuTable::begin(&record.document, &[&record.document.series[0]], setup.output.full)?),
        false => None,
    };
    let all = (options.bytes.len() * setup.runs) as f64;
    let mut done = 0.0;
    for &bytes in &options.bytes {
        let mut point = SeriesPoint { at: bytes as f64, size_bytes: bytes as f64, runs: Vec::new() };
        let MessageCounts { measured, warm_up } = options.counts(bytes);
        for run in 1..=setup.runs {
            let what = format!("groups of {bytes} bytes, run {run} of {}", setup.runs);
            let show = |share: f64| {
                progress.show((done + share) / all, &what);
                check_interrupted()
            };
            segment.write_groups(bytes, warm_up, |_| show(0.0))?;
            let mut result = segment.write_groups(bytes, measured, show)?;
            result.invalid.extend(validity::unoptimised(&record.document.environment));
            point.runs.push(result);
            done += 1.0;
        }
        progress.clear();
        if let Some(table) = &table {
            table.row(&[&point])?;
        }
        record.document.series[0].points.push(point);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    fn options(line: &str) -> Result<DiskOptions, String> {
        let words: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
        DiskOptions::read(&ParsedOptions::parse(&words, &[OWN, OUTPUT])?).map_err(String::from)
    }

    #[test]
    fn options_are_parsed() {
        let usual = options("").expect("nothing is wrong");
        assert_eq!((usual.dir.as_path(), &usual.bytes[..]), (Path::new("."), &[4_096, 65_536, 1_048_576][..]));
        assert_eq!([4_096, 1_048_576].map(|bytes| usual.counts(bytes).measured), [2_000, 1_024]);
        let few = options("--dir /x --bytes 8192 -n 5").expect("nothing is wrong");
        assert_eq!((few.dir.as_path(), &few.bytes[..]), (Path::new("/x"), &[8_192][..]));
        assert_eq!((few.counts(8_192).measured, few.counts(8_192).warm_up), (5, 1));
    }

    #[test]
    fn what_a_log_would_not_write_is_refused() {
        for (line, expected) in [
            ("--bytes 5000", "--bytes: 5000 is not a multiple of 4096"),
            ("--bytes 4096,2097152", "--bytes is a number from 4096 to 1048576, not '2097152'"),
            ("--groups 0", "--groups is a number from 1 to 1000000, not '0'"),
            ("--groups 1000000", "--groups: at most 262144 of 1048576 bytes, which are 256 GiB"),
        ] {
            assert_eq!(options(line).map(|_| ()), Err(expected.to_owned()), "{line}");
        }
    }
}
