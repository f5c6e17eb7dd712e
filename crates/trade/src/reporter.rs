//! The statistics reporter: writes the samples of gateways and engine to a file, a line each, and the rejections of
//! unreadable inputs whose sender named no queue.
//!
//! A message is acknowledged once it is written. The queue of rejections is deleted with the reporter.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::PathBuf;
use std::time::Duration;

use client::{Client, ClientChannel, ConsumeOptions, QueueOptions, Table};
use market::{MarketMessage, MarketSample, SampleSource};
use serde::{Deserialize, Serialize};

use super::market_address::{MarketAddress, REJECTS, STATISTICS};
use super::report_lines::{MeasurementLine, RejectionLine};
use crate::limits::{MARKET_LOOK, MARKET_SILENCE};
use harness::interrupt;

/// Parameters of a reporter.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct ReporterTask {
    pub place: MarketAddress,
    /// Where the lines go; `None`: they are only counted.
    pub file: Option<PathBuf>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ReporterResults {
    /// Samples of gateways.
    pub gateway: u64,
    /// Samples of the engine.
    pub engine: u64,
    /// Rejections of unreadable inputs.
    pub rejections: u64,
    /// Messages that are neither.
    pub strays: u64,
}

/// A running reporter.
pub(crate) struct ReporterProgram {
    client: Client,
    channel: ClientChannel,
    file: Option<BufWriter<File>>,
    reported: ReporterResults,
}

impl ReporterProgram {
    /// Connects, and creates the file.
    pub(crate) fn start(task: &ReporterTask) -> Result<Self, String> {
        let file = match &task.file {
            Some(path) => Some(File::create(path).map_err(|error| format!("{}: {error}", path.display()))?),
            None => None,
        };
        let connect = || {
            let (mut client, channel) = task.place.connect("reporter", client::limits::FLUSH_BYTES)?;
            let own = QueueOptions { exclusive: true, ..QueueOptions::default() };
            let rejections = client.declare_queue(channel, "", &own)?.name;
            client.bind_queue(channel, &rejections, &task.place.name, REJECTS, &Table::new())?;
            client.consume(channel, &rejections, &ConsumeOptions::default())?;
            // Declared last: when this consumer is visible, everything is in place.
            client.consume(channel, &task.place.queue(STATISTICS), &ConsumeOptions::default())?;
            Ok((client, channel))
        };
        let (client, channel) = connect().map_err(|error: client::ClientError| error.to_string())?;
        Ok(Self { client, channel, file: file.map(BufWriter::new), reported: ReporterResults::default() })
    }

    /// Runs until it is told to end (SIGTERM, Ctrl-C) and nothing arrives any more.
    pub(crate) fn work(mut self) -> Result<ReporterResults, String> {
        loop {
            let over = interrupt::requested();
            let came = self.write_next(if over { MARKET_SILENCE } else { MARKET_LOOK })?;
            if over && came == 0 {
                self.client.close().map_err(|error| error.to_string())?;
                return Ok(self.reported);
            }
        }
    }

    fn write_next(&mut self, wait: Duration) -> Result<u64, String> {
        let (file, reported) = (&mut self.file, &mut self.reported);
        let mut last = None;
        let mut failed: Option<String> = None;
        let came = self.client.dispatch(wait, |delivery, _| {
            last = Some(delivery.delivery_tag);
            let line = match (MarketSample::decode(delivery.body()), MarketMessage::decode(delivery.body())) {
                (Ok(sample), _) => {
                    match sample.source {
                        SampleSource::Gateway(_) => reported.gateway += 1,
                        SampleSource::Engine => reported.engine += 1,
                    }
                    MeasurementLine::of(sample).line()
                }
                (Err(_), Ok(MarketMessage::Reject(reject))) if delivery.routing_key == REJECTS.as_bytes() => {
                    reported.rejections += 1;
                    RejectionLine::of(&reject).line()
                }
                _ => {
                    reported.strays += 1;
                    return Ok(());
                }
            };
            if let (Some(file), None) = (file.as_mut(), &failed) {
                failed = line.and_then(|line| writeln!(file, "{line}").map_err(|error| error.to_string())).err();
            }
            Ok(())
        });
        let came = came.map_err(|error| error.to_string())?;
        let flushed = self.file.as_mut().map_or(Ok(()), Write::flush);
        if let Some(error) = failed.or(flushed.err().map(|error| error.to_string())) {
            return Err(format!("the measurements cannot be written: {error}"));
        }
        if let Some(tag) = last {
            self.client.ack(self.channel, tag, true).map_err(|error| error.to_string())?;
        }
        Ok(came.deliveries)
    }
}
