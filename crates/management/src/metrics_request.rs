//! Which metrics a request asks for.

use crate::answer::{Answer, AnswerBody};
use crate::metric_writer::CONTENT_TYPE;
use crate::metrics_stream::{MetricsEndpoint, MetricsStream};
use crate::query::Query;
use crate::request_counts::RequestCounts;
use crate::route::Handler;

/// The answer to one of the three routes.
pub fn answer(handler: Handler, query: &Query, requests: RequestCounts) -> Answer {
    let endpoint = match handler {
        Handler::MetricsPerObject => MetricsEndpoint::PerObject,
        Handler::MetricsDetailed => MetricsEndpoint::Detailed,
        _ => MetricsEndpoint::Aggregated,
    };
    let groups: Vec<&str> = query.all("family").collect();
    let vhosts = query.all("vhost").map(str::to_owned).collect();
    let body = AnswerBody::Metrics(Box::new(MetricsStream::new(endpoint, &groups, vhosts, requests)));
    Answer { status: 200, headers: vec![("content-type", CONTENT_TYPE.to_owned())], body }
}
