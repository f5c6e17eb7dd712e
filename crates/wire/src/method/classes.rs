//! The classes and methods of AMQP 0-9-1, with RabbitMQ's extensions: one entry each.
//!
//! Enters: the table at the end of this file.  Leaves: a struct per method, and the enum over all of them.
//! Owns:   names, numbers and fields of every method.
//!
//! An entry is `number Variant = Struct "name" { fields }`. A type in brackets is a reserved field: skipped when
//! received, empty when sent; those behind the last field follow a semicolon.

use super::argument::{Argument, EncodedLength};
use crate::{error::DecodeError, ids::DeliveryTag, read::Reader, short_str::ShortStr, table::TableRef, write::Writer};

macro_rules! classes {
    ($(
        $(#[doc = $class_doc:literal])+
        $class:ident = $class_id:literal {
            $(
                $(#[doc = $doc:literal])+
                $method_id:literal $variant:ident = $name:ident $(<$life:lifetime>)? $text:literal
                { $( $([$skip:ty])* $field:ident: $kind:ty ),* $(; $([$last:ty])+)? }
            )+
        }
    )+) => {
        $(
            $(#[doc = $class_doc])+
            pub mod $class {
                #[allow(clippy::wildcard_imports, reason = "not every class uses every kind of field")]
                use super::*;

                /// The class's number.
                pub const CLASS_ID: u16 = $class_id;

                $(
                    $(#[doc = $doc])+
                    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
                    pub struct $name $(<$life>)? {
                        $(
                            #[doc = concat!("The field `", stringify!($field), "`.")]
                            pub $field: $kind,
                        )*
                    }

                    impl $(<$life>)? $name $(<$life>)? {
                        /// Class and method number.
                        pub const ID: (u16, u16) = ($class_id, $method_id);

                        /// Reads the arguments: the payload behind the numbers. Bytes left over are refused.
                        #[inline]
                        pub fn decode(arguments: &$($life)? [u8]) -> Result<Self, DecodeError> {
                            #[allow(unused_mut, reason = "methods without fields")]
                            let mut from = Reader::new(arguments);
                            $(
                                $( <$skip>::take(&mut from)?; )*
                                let $field = <$kind>::take(&mut from)?;
                            )*
                            $($( <$last>::take(&mut from)?; )+)?
                            from.finish()?;
                            Ok(Self { $($field),* })
                        }

                        /// Bytes of the arguments.
                        #[inline]
                        pub fn encoded_len(&self) -> usize {
                            #[allow(unused_mut, reason = "methods without fields")]
                            let mut count = EncodedLength::default();
                            $(
                                $( <$skip>::default().count(&mut count); )*
                                self.$field.count(&mut count);
                            )*
                            $($( <$last>::default().count(&mut count); )+)?
                            count.bytes
                        }

                        /// Writes the arguments into `out`, exactly `encoded_len()` bytes (panics otherwise).
                        #[inline]
                        pub fn encode(&self, out: &mut [u8]) {
                            #[allow(unused_mut, reason = "methods without fields")]
                            let mut to = Writer::new(out);
                            $(
                                $( <$skip>::default().put(&mut to); )*
                                self.$field.put(&mut to);
                            )*
                            $($( <$last>::default().put(&mut to); )+)?
                            to.finish();
                        }
                    }

                    impl<'m $(, $life: 'm)?> From<$name $(<$life>)?> for Method<'m> {
                        #[inline]
                        fn from(method: $name $(<$life>)?) -> Self {
                            Self::$variant(method)
                        }
                    }
                )+
            }
        )+

        /// Any method.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Method<'a> {
            $($(
                #[doc = concat!("`", stringify!($class), ".", $text, "`.")]
                $variant($class::$name $(<$life>)?),
            )+)+
        }

        impl<'a> Method<'a> {
            /// Numbers and name of every method, by class and method number.
            pub const ALL: &'static [((u16, u16), &'static str)] = &[
                $($( (($class_id, $method_id), concat!(stringify!($class), ".", $text)), )+)+
            ];

            /// The method with these numbers and arguments.
            #[inline]
            pub fn decode_arguments(id: (u16, u16), arguments: &'a [u8]) -> Result<Self, DecodeError> {
                match id {
                    $($( ($class_id, $method_id) => $class::$name::decode(arguments).map(Self::$variant), )+)+
                    (class_id, method_id) => Err(DecodeError::UnknownMethod { class_id, method_id }),
                }
            }

            /// Bytes of the arguments alone.
            #[inline]
            pub fn arguments_len(&self) -> usize {
                match self { $($( Self::$variant(method) => method.encoded_len(), )+)+ }
            }

            /// Writes the arguments alone, exactly `arguments_len()` bytes (panics otherwise).
            #[inline]
            pub fn encode_arguments(&self, out: &mut [u8]) {
                match self { $($( Self::$variant(method) => method.encode(out), )+)+ }
            }

            /// Class and method number.
            #[inline]
            pub const fn id(&self) -> (u16, u16) {
                match self { $($( Self::$variant(_) => ($class_id, $method_id), )+)+ }
            }

            /// The specification's name: `basic.consume-ok`.
            pub const fn name(&self) -> &'static str {
                match self { $($( Self::$variant(_) => concat!(stringify!($class), ".", $text), )+)+ }
            }

            /// One of each method, filled by chance.
            #[cfg(test)]
            pub(crate) fn drawn(dice: &mut crate::dice::RandomChoices<'a>) -> Vec<Self> {
                use crate::dice::Arbitrary;
                vec![$($( Self::$variant($class::$name { $($field: Arbitrary::draw(dice)),* }), )+)+]
            }
        }
    };
}

classes! {
    /// Connections (AMQP 0-9-1 §1.4; `blocked`, `unblocked`, `update-secret` are RabbitMQ's).
    connection = 10 {
        /// The server says what it can.
        10 ConnectionStart = Start<'a> "start" {
            version_major: u8, version_minor: u8, server_properties: TableRef<'a>, mechanisms: &'a [u8], locales: &'a [u8]
        }
        /// The client chooses a mechanism and identifies itself.
        11 ConnectionStartOk = StartOk<'a> "start-ok" {
            client_properties: TableRef<'a>, mechanism: ShortStr<'a>, response: &'a [u8], locale: ShortStr<'a>
        }
        /// The mechanism needs another round.
        20 ConnectionSecure = Secure<'a> "secure" { challenge: &'a [u8] }
        /// The answer to a challenge.
        21 ConnectionSecureOk = SecureOk<'a> "secure-ok" { response: &'a [u8] }
        /// The server proposes limits; 0 is none; the heartbeat is in seconds.
        30 ConnectionTune = Tune "tune" { channel_max: u16, frame_max: u32, heartbeat: u16 }
        /// The client settles the limits; 0 is none; the heartbeat is in seconds.
        31 ConnectionTuneOk = TuneOk "tune-ok" { channel_max: u16, frame_max: u32, heartbeat: u16 }
        /// The client chooses a virtual host.
        40 ConnectionOpen = Open<'a> "open" { virtual_host: ShortStr<'a>; [ShortStr<'_>] [bool] }
        /// The connection is ready.
        41 ConnectionOpenOk = OpenOk "open-ok" { ; [ShortStr<'_>] }
        /// Either side ends the connection, and may name the method that caused it.
        50 ConnectionClose = Close<'a> "close" {
            reply_code: u16, reply_text: ShortStr<'a>, class_id: u16, method_id: u16
        }
        /// The end is acknowledged.
        51 ConnectionCloseOk = CloseOk "close-ok" {}
        /// The server stops reading from publishers.
        60 ConnectionBlocked = Blocked<'a> "blocked" { reason: ShortStr<'a> }
        /// The server reads again.
        61 ConnectionUnblocked = Unblocked "unblocked" {}
        /// The client replaces its secret.
        70 ConnectionUpdateSecret = UpdateSecret<'a> "update-secret" { new_secret: &'a [u8], reason: ShortStr<'a> }
        /// The new secret holds.
        71 ConnectionUpdateSecretOk = UpdateSecretOk "update-secret-ok" {}
    }

    /// Channels (AMQP 0-9-1 §1.5).
    channel = 20 {
        /// The client opens a channel.
        10 ChannelOpen = Open "open" { ; [ShortStr<'_>] }
        /// The channel is ready.
        11 ChannelOpenOk = OpenOk "open-ok" { ; [&[u8]] }
        /// Asks the peer to pause or resume content.
        20 ChannelFlow = Flow "flow" { active: bool }
        /// The pause or the resumption is acknowledged.
        21 ChannelFlowOk = FlowOk "flow-ok" { active: bool }
        /// Either side ends the channel, and may name the method that caused it.
        40 ChannelClose = Close<'a> "close" {
            reply_code: u16, reply_text: ShortStr<'a>, class_id: u16, method_id: u16
        }
        /// The end is acknowledged.
        41 ChannelCloseOk = CloseOk "close-ok" {}
    }

    /// Access tickets (AMQP 0-8; old clients still ask for one).
    access = 30 {
        /// The client asks for a ticket.
        10 AccessRequest = Request<'a> "request" {
            realm: ShortStr<'a>, exclusive: bool, passive: bool, active: bool, write: bool, read: bool
        }
        /// The ticket, which nobody looks at.
        11 AccessRequestOk = RequestOk "request-ok" { ticket: u16 }
    }

    /// Exchanges (AMQP 0-9-1 §1.6; bindings between exchanges are RabbitMQ's).
    exchange = 40 {
        /// Creates an exchange, or checks it.
        10 ExchangeDeclare = Declare<'a> "declare" {
            [u16] exchange: ShortStr<'a>, kind: ShortStr<'a>, passive: bool, durable: bool, auto_delete: bool,
            internal: bool, no_wait: bool, arguments: TableRef<'a>
        }
        /// The exchange exists.
        11 ExchangeDeclareOk = DeclareOk "declare-ok" {}
        /// Deletes an exchange.
        20 ExchangeDelete = Delete<'a> "delete" { [u16] exchange: ShortStr<'a>, if_unused: bool, no_wait: bool }
        /// The exchange is gone.
        21 ExchangeDeleteOk = DeleteOk "delete-ok" {}
        /// Binds an exchange to an exchange.
        30 ExchangeBind = Bind<'a> "bind" {
            [u16] destination: ShortStr<'a>, source: ShortStr<'a>, routing_key: ShortStr<'a>, no_wait: bool,
            arguments: TableRef<'a>
        }
        /// The binding exists.
        31 ExchangeBindOk = BindOk "bind-ok" {}
        /// Takes such a binding away.
        40 ExchangeUnbind = Unbind<'a> "unbind" {
            [u16] destination: ShortStr<'a>, source: ShortStr<'a>, routing_key: ShortStr<'a>, no_wait: bool,
            arguments: TableRef<'a>
        }
        /// The binding is gone. (Number 51 is no slip: RabbitMQ chose it.)
        51 ExchangeUnbindOk = UnbindOk "unbind-ok" {}
    }

    /// Queues (AMQP 0-9-1 §1.7).
    queue = 50 {
        /// Creates a queue, or checks it.
        10 QueueDeclare = Declare<'a> "declare" {
            [u16] queue: ShortStr<'a>, passive: bool, durable: bool, exclusive: bool, auto_delete: bool, no_wait: bool,
            arguments: TableRef<'a>
        }
        /// The queue exists.
        11 QueueDeclareOk = DeclareOk<'a> "declare-ok" {
            queue: ShortStr<'a>, message_count: u32, consumer_count: u32
        }
        /// Binds a queue to an exchange.
        20 QueueBind = Bind<'a> "bind" {
            [u16] queue: ShortStr<'a>, exchange: ShortStr<'a>, routing_key: ShortStr<'a>, no_wait: bool,
            arguments: TableRef<'a>
        }
        /// The binding exists.
        21 QueueBindOk = BindOk "bind-ok" {}
        /// Drops the messages that are ready.
        30 QueuePurge = Purge<'a> "purge" { [u16] queue: ShortStr<'a>, no_wait: bool }
        /// How many were dropped.
        31 QueuePurgeOk = PurgeOk "purge-ok" { message_count: u32 }
        /// Deletes a queue.
        40 QueueDelete = Delete<'a> "delete" {
            [u16] queue: ShortStr<'a>, if_unused: bool, if_empty: bool, no_wait: bool
        }
        /// The queue is gone, and this many messages with it.
        41 QueueDeleteOk = DeleteOk "delete-ok" { message_count: u32 }
        /// Takes a binding away.
        50 QueueUnbind = Unbind<'a> "unbind" {
            [u16] queue: ShortStr<'a>, exchange: ShortStr<'a>, routing_key: ShortStr<'a>, arguments: TableRef<'a>
        }
        /// The binding is gone.
        51 QueueUnbindOk = UnbindOk "unbind-ok" {}
    }

    /// Content (AMQP 0-9-1 §1.8; `nack` is RabbitMQ's).
    basic = 60 {
        /// Limits what may be unacknowledged.
        10 BasicQos = Qos "qos" { prefetch_size: u32, prefetch_count: u16, global: bool }
        /// The limits hold.
        11 BasicQosOk = QosOk "qos-ok" {}
        /// Starts a consumer.
        20 BasicConsume = Consume<'a> "consume" {
            [u16] queue: ShortStr<'a>, consumer_tag: ShortStr<'a>, no_local: bool, no_ack: bool, exclusive: bool,
            no_wait: bool, arguments: TableRef<'a>
        }
        /// The consumer runs under this tag.
        21 BasicConsumeOk = ConsumeOk<'a> "consume-ok" { consumer_tag: ShortStr<'a> }
        /// Ends a consumer; from the server: its queue is gone.
        30 BasicCancel = Cancel<'a> "cancel" { consumer_tag: ShortStr<'a>, no_wait: bool }
        /// The consumer has ended.
        31 BasicCancelOk = CancelOk<'a> "cancel-ok" { consumer_tag: ShortStr<'a> }
        /// A message for an exchange; content follows.
        40 BasicPublish = Publish<'a> "publish" {
            [u16] exchange: ShortStr<'a>, routing_key: ShortStr<'a>, mandatory: bool, immediate: bool
        }
        /// A message comes back to its publisher; content follows.
        50 BasicReturn = Return<'a> "return" {
            reply_code: u16, reply_text: ShortStr<'a>, exchange: ShortStr<'a>, routing_key: ShortStr<'a>
        }
        /// A message for a consumer; content follows.
        60 BasicDeliver = Deliver<'a> "deliver" {
            consumer_tag: ShortStr<'a>, delivery_tag: DeliveryTag, redelivered: bool, exchange: ShortStr<'a>,
            routing_key: ShortStr<'a>
        }
        /// Asks for one message.
        70 BasicGet = Get<'a> "get" { [u16] queue: ShortStr<'a>, no_ack: bool }
        /// The message asked for; content follows.
        71 BasicGetOk = GetOk<'a> "get-ok" {
            delivery_tag: DeliveryTag, redelivered: bool, exchange: ShortStr<'a>, routing_key: ShortStr<'a>, message_count: u32
        }
        /// There is none.
        72 BasicGetEmpty = GetEmpty "get-empty" { ; [ShortStr<'_>] }
        /// Messages were taken care of: by a client its deliveries, by the server what was published.
        80 BasicAck = Ack "ack" { delivery_tag: DeliveryTag, multiple: bool }
        /// The client does not want a message.
        90 BasicReject = Reject "reject" { delivery_tag: DeliveryTag, requeue: bool }
        /// As `recover`, without an answer.
        100 BasicRecoverAsync = RecoverAsync "recover-async" { requeue: bool }
        /// The client wants unacknowledged messages again.
        110 BasicRecover = Recover "recover" { requeue: bool }
        /// They are on their way.
        111 BasicRecoverOk = RecoverOk "recover-ok" {}
        /// As `reject` for one or more; by the server: what was published is lost.
        120 BasicNack = Nack "nack" { delivery_tag: DeliveryTag, multiple: bool, requeue: bool }
    }

    /// Publisher confirms (RabbitMQ extension).
    confirm = 85 {
        /// Asks for confirms on this channel.
        10 ConfirmSelect = Select "select" { no_wait: bool }
        /// Confirms will come.
        11 ConfirmSelectOk = SelectOk "select-ok" {}
    }

    /// Local transactions (AMQP 0-9-1 §1.9).
    tx = 90 {
        /// Makes the channel transactional.
        10 TxSelect = Select "select" {}
        /// It is.
        11 TxSelectOk = SelectOk "select-ok" {}
        /// What was published and acknowledged since the last time shall happen.
        20 TxCommit = Commit "commit" {}
        /// It happened.
        21 TxCommitOk = CommitOk "commit-ok" {}
        /// What was published and acknowledged since the last time shall not happen.
        30 TxRollback = Rollback "rollback" {}
        /// It will not.
        31 TxRollbackOk = RollbackOk "rollback-ok" {}
    }
}
