//! An object that is being written: fields in their order, each of the type that clients demand.

use crate::rated_count::RatedCount;
use definitions::Json;

/// Fields of an object.
#[derive(Default)]
pub struct JsonObject(Vec<(String, Json)>);

impl JsonObject {
    pub fn new() -> Self {
        Self::default()
    }

    pub fn put(mut self, key: &str, value: Json) -> Self {
        self.0.push((key.to_owned(), value));
        self
    }

    pub fn text(self, key: &str, value: &str) -> Self {
        self.put(key, Json::text(value))
    }

    pub fn flag(self, key: &str, value: bool) -> Self {
        self.put(key, Json::Bool(value))
    }

    pub fn int(self, key: &str, value: impl TryInto<i64>) -> Self {
        self.put(key, Json::Int(value.try_into().unwrap_or(i64::MAX)))
    }

    /// A text, or null.
    pub fn maybe_text(self, key: &str, value: Option<&str>) -> Self {
        self.put(key, value.map_or(Json::Null, Json::text))
    }

    /// `KEY_details`, with the rate. Not a number is none.
    pub fn rate(self, key: &str, rate: f64) -> Self {
        let rate = if rate.is_finite() { rate } else { 0.0 };
        self.put(&format!("{key}_details"), Json::Object(vec![("rate".to_owned(), Json::Float(rate))]))
    }

    /// A count with its rate.
    pub fn counted(self, key: &str, count: RatedCount) -> Self {
        self.int(key, count.total).rate(key, count.rate)
    }

    pub fn all_counted(self, counts: impl IntoIterator<Item = (&'static str, RatedCount)>) -> Self {
        counts.into_iter().fold(self, |object, (key, count)| object.counted(key, count))
    }

    /// Zeros, for what clients read and this broker does not have.
    pub fn zeros<'a>(self, keys: impl IntoIterator<Item = &'a str>) -> Self {
        keys.into_iter().fold(self, |object, key| object.int(key, 0))
    }

    /// The fields of another object.
    pub fn with(mut self, other: JsonObject) -> Self {
        self.0.extend(other.0);
        self
    }

    pub fn build(self) -> Json {
        Json::Object(self.0)
    }
}

/// A list of texts.
pub fn texts<'a>(items: impl IntoIterator<Item = &'a str>) -> Json {
    Json::List(items.into_iter().map(Json::text).collect())
}

/// An object without fields.
pub fn empty() -> Json {
    Json::Object(Vec::new())
}

/// `2026-11-22T20:12:18.857+00:00`, of milliseconds since the epoch.
pub fn iso_time(ms: u64) -> String {
    format!("{}.{:03}+00:00", date_and_time((ms / 1_000) as i64), ms % 1_000)
}

/// `2026-11-22T20:12:18Z`, of seconds since the epoch, which may be before it.
pub fn iso_second(second: i64) -> String {
    format!("{}Z", date_and_time(second))
}

fn date_and_time(second: i64) -> String {
    let (days, of_day) = (second.div_euclid(86_400), second.rem_euclid(86_400));
    // Days to a date of the Gregorian calendar, by eras of 400 years that begin in March (Hinnant, "chrono-compatible
    // low-level date algorithms").
    let shifted = days + 719_468;
    let (era, of_era) = (shifted.div_euclid(146_097), shifted.rem_euclid(146_097));
    let year_of_era = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let from_march = (5 * of_year + 2) / 153;
    let day = of_year - (153 * from_march + 2) / 5 + 1;
    let month = if from_march < 10 { from_march + 3 } else { from_march - 9 };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    let (hour, minute, second) = (of_day / 3_600, of_day / 60 % 60, of_day % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}")
}

#[cfg(test)]
mod tests {
    use super::{JsonObject, iso_second, iso_time};
    use crate::rated_count::RatedCount;

    #[test]
    fn numbers_stay_whole_and_rates_are_numbers() {
        let count = RatedCount { total: u64::MAX, rate: f64::NAN };
        let object = JsonObject::new().counted("ack", count).int("n", 3u32).rate("m", 2.0).zeros(["z"]).build();
        let expected = r#"{"ack":9223372036854775807,"ack_details":{"rate":0.0},"n":3,"m_details":{"rate":2.0},"z":0}"#;
        assert_eq!(object.line(), expected);
    }

    #[test]
    fn times_are_dates_of_the_calendar() {
        for (ms, text) in [
            (0, "1970-01-01T00:00:00.000+00:00"),
            (951_782_399_999, "2000-02-28T23:59:59.999+00:00"),
            (951_782_400_000, "2000-02-29T00:00:00.000+00:00"),
            (1_795_378_338_857, "2026-11-22T20:12:18.857+00:00"),
            (4_107_542_400_000, "2100-03-01T00:00:00.000+00:00"),
        ] {
            assert_eq!(iso_time(ms), text);
        }
        for (second, text) in
            [(-1, "1969-12-31T23:59:59Z"), (0, "1970-01-01T00:00:00Z"), (2_524_608_000, "2050-01-01T00:00:00Z")]
        {
            assert_eq!(iso_second(second), text);
        }
    }
}
