//! What operators note about a virtual host: it has no effect on messages, and goes into the next export.
//!
//! Owns: the keys. They are among the kept sections, as entries of `vhosts`.

use crate::{Json, KeptSections};

/// The section of the notes.
pub(crate) const VHOSTS: &str = "vhosts";

/// One thing that is noted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VhostNote {
    Description,
    Tags,
    DefaultQueueType,
    Tracing,
    /// Those who delete virtual hosts over HTTP look at it.
    ProtectedFromDeletion,
    /// Whatever else there is, as it is written.
    Metadata,
}

/// All of them, in the order in which they are written.
pub const VHOST_NOTES: [VhostNote; 6] = [
    VhostNote::Description,
    VhostNote::Tags,
    VhostNote::DefaultQueueType,
    VhostNote::Tracing,
    VhostNote::ProtectedFromDeletion,
    VhostNote::Metadata,
];

impl VhostNote {
    /// As RabbitMQ names it.
    pub const fn key(self) -> &'static str {
        match self {
            Self::Description => "description",
            Self::Tags => "tags",
            Self::DefaultQueueType => "default_queue_type",
            Self::Tracing => "tracing",
            Self::ProtectedFromDeletion => "protected_from_deletion",
            Self::Metadata => "metadata",
        }
    }
}

impl KeptSections {
    /// What is noted about a virtual host: keys and values.
    pub(crate) fn vhost_notes(&self, vhost: &str) -> impl Iterator<Item = (&str, &Json)> {
        let of_vhost = |entry: &&Json| entry.get("name") == Some(&Json::text(vhost));
        let fields = match self.section(VHOSTS).iter().find(of_vhost) {
            Some(Json::Object(fields)) => &fields[..],
            _ => &[],
        };
        fields.iter().filter(|(key, _)| key != "name").map(|(key, value)| (&**key, value))
    }

    pub fn vhost_note(&self, vhost: &str, note: VhostNote) -> Option<&Json> {
        self.vhost_notes(vhost).find(|(key, _)| *key == note.key()).map(|(_, value)| value)
    }

    /// Notes something about a virtual host, in the place of what was noted under this key.
    pub fn note_vhost(&mut self, vhost: &str, note: VhostNote, value: Json) {
        let known = self.vhost_notes(vhost).filter(|(key, _)| *key != note.key());
        let known: Vec<_> = known.map(|(key, value)| (key.to_owned(), value.clone())).collect();
        let name = [("name".to_owned(), Json::text(vhost))];
        let fields = name.into_iter().chain(known).chain([(note.key().to_owned(), value)]).collect();
        self.put(VHOSTS, &["name"], Json::Object(fields));
    }

    /// Forgets a virtual host, with the parameters in it. Answers whether there was anything.
    pub fn forget_vhost(&mut self, vhost: &str) -> bool {
        let name = Json::text(vhost);
        let noted = self.remove(VHOSTS, |entry| entry.get("name") == Some(&name));
        self.remove("parameters", |entry| entry.get("vhost") == Some(&name)) | noted
    }
}
