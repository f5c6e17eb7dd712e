//! The thread on which users of the management API handle messages: it may wait for the broker, and answers wait for it alone.

use crate::management::management_limits::SESSION_TASKS_WAITING_MAX;
use crate::management::user_session::UserSession;
use management::{ActionReply, ApiError, ConditionalDeletion, MessageToPublish, MessagesToGet};
use shard::AdminHandle;
use std::io;
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};

/// What needs a session.
pub enum SessionAction {
    Publish(Box<MessageToPublish>),
    Get(MessagesToGet),
    Purge { queue: String },
    DeleteQueue(ConditionalDeletion),
    TestAliveness,
}

/// An action in a virtual host, by a user, and where its outcome goes.
pub struct SessionTask {
    pub user: String,
    pub vhost: String,
    pub action: SessionAction,
    pub reply: ActionReply,
}

/// The end at which tasks are handed over. When it is dropped, the thread ends behind the last one.
pub struct SessionWorker(SyncSender<SessionTask>);

impl SessionWorker {
    /// # Errors
    /// The system refuses a thread.
    pub fn start(operator: AdminHandle) -> io::Result<Self> {
        let (tasks, waiting) = sync_channel(SESSION_TASKS_WAITING_MAX);
        let run = move || run(&operator, &waiting);
        std::thread::Builder::new().name("api sessions".to_owned()).spawn(run)?;
        Ok(SessionWorker(tasks))
    }

    /// Begins a task; if too many wait, it is refused.
    pub fn begin(&self, task: SessionTask) {
        let (task, why) = match self.0.try_send(task) {
            Ok(()) => return,
            Err(TrySendError::Full(task)) => (task, "too many requests for messages wait"),
            Err(TrySendError::Disconnected(task)) => (task, "the thread for messages has failed"),
        };
        task.reply.send(Err(ApiError::unavailable(why)));
    }
}

fn run(operator: &AdminHandle, waiting: &Receiver<SessionTask>) {
    for SessionTask { user, vhost, action, reply } in waiting {
        let session = UserSession::open(operator, &user, &vhost);
        reply.send(session.and_then(|session| match action {
            SessionAction::Publish(message) => session.publish(&message),
            SessionAction::Get(wanted) => session.get(&wanted),
            SessionAction::Purge { queue } => session.purge(&queue),
            SessionAction::DeleteQueue(deletion) => session.delete_queue(&deletion),
            SessionAction::TestAliveness => session.test_aliveness(),
        }));
    }
}
