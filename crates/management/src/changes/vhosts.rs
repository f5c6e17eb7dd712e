//! Virtual hosts: made with permissions for whom asks, described, protected, deleted.

use super::Planned;
use super::kept_limits::{check_counts, check_entry};
use crate::api_error::ApiError;
use crate::change_request::{ChangeRequest, made};
use crate::planned_change::PlannedChange;
use crate::source::ActionOutcome;
use catalog::{Definition, Permission, ResourceKind};
use definitions::{Json, KeptSections, VHOST_NOTES, VhostNote};

/// `PUT /api/vhosts/{vhost}`.
pub fn create(request: &ChangeRequest<'_>) -> Planned {
    let name = request.name(ResourceKind::Vhost, "vhost")?;
    let existed = request.catalog().vhost_by_name(&name).is_some();
    let mut definitions = Vec::new();
    if !existed {
        let (user, vhost, permission) = (request.user_name.clone(), name.clone(), Permission::all());
        definitions.push(Definition::CreateVhost { name: name.clone() });
        definitions.push(Definition::SetPermission { user, vhost, permission });
    }
    let notes = notes(request)?;
    let mut kept = None;
    if !notes.is_empty() {
        check_entry(request.body.fields())?;
        let kept = kept.insert(request.source.kept().clone());
        notes.into_iter().for_each(|(note, value)| kept.note_vhost(&name, note, value));
        check_counts(request.source.kept(), kept)?;
    }
    Ok(PlannedChange::Define { definitions, kept, outcome: made(existed) })
}

/// What the body says about a virtual host that has no effect.
fn notes(request: &ChangeRequest<'_>) -> Result<Vec<(VhostNote, Json)>, ApiError> {
    let body = request.body;
    let mut notes = Vec::new();
    for note in VHOST_NOTES {
        let key = note.key();
        if body.get(key).is_none() {
            continue;
        }
        notes.push((
            note,
            match note {
                VhostNote::Description | VhostNote::DefaultQueueType => Json::text(body.required_text(key)?),
                VhostNote::Tags => Json::List(body.texts(key)?.into_iter().map(Json::Text).collect()),
                VhostNote::Tracing | VhostNote::ProtectedFromDeletion => Json::Bool(body.flag(key, false)?),
                VhostNote::Metadata => match body.get(key) {
                    Some(object @ Json::Object(_)) => object.clone(),
                    _ => return Err(ApiError::bad_request("metadata is an object")),
                },
            },
        ));
    }
    Ok(notes)
}

/// `DELETE /api/vhosts/{vhost}`. What is kept about it and in it goes with it.
pub fn delete(request: &ChangeRequest<'_>) -> Planned {
    let name = request.vhost_name()?;
    let mut kept = request.source.kept().clone();
    if is_protected(&kept, &name) {
        let reason = format!("virtual host '{name}' is protected from deletion");
        return Err(ApiError::new(412, "precondition_failed", reason));
    }
    let kept = kept.forget_vhost(&name).then_some(kept);
    let definitions = vec![Definition::DeleteVhost { name }];
    Ok(PlannedChange::Define { definitions, kept, outcome: ActionOutcome::Done })
}

fn is_protected(kept: &KeptSections, name: &str) -> bool {
    kept.vhost_note(name, VhostNote::ProtectedFromDeletion) == Some(&Json::Bool(true))
}

/// `POST` and `DELETE /api/vhosts/{vhost}/deletion/protection`.
pub fn protect(request: &ChangeRequest<'_>, is_protected: bool) -> Planned {
    let (name, mut kept) = (request.vhost_name()?, request.source.kept().clone());
    kept.note_vhost(&name, VhostNote::ProtectedFromDeletion, Json::Bool(is_protected));
    Ok(PlannedChange::keep(kept, ActionOutcome::Done))
}
