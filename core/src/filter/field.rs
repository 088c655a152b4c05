//! What a filter can look at, and the names that the two languages have for it.

/// A standard field of a message (AMQP 1.0 part 3, 3.2.1 and 3.2.4).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Field {
    /// header.durable; never absent.
    Durable,
    /// header.priority; never absent, 4 where nobody said otherwise.
    Priority,
    /// header.ttl, milliseconds.
    Ttl,
    /// header.first-acquirer; never absent.
    FirstAcquirer,
    /// header.delivery-count: failed attempts; never absent.
    DeliveryCount,
    /// properties.message-id
    MessageId,
    /// properties.user-id; text where it is UTF-8.
    UserId,
    /// properties.to
    To,
    /// properties.subject
    Subject,
    /// properties.reply-to
    ReplyTo,
    /// properties.correlation-id
    CorrelationId,
    /// properties.content-type
    ContentType,
    /// properties.content-encoding
    ContentEncoding,
    /// properties.absolute-expiry-time, milliseconds since 1970.
    AbsoluteExpiryTime,
    /// properties.creation-time, milliseconds since 1970.
    CreationTime,
    /// properties.group-id
    GroupId,
    /// properties.group-sequence
    GroupSequence,
    /// properties.reply-to-group-id
    ReplyToGroupId,
}

/// Fields of the header, with the standard's names but for underscores.
const HEADER: [(&str, Field); 5] = [
    ("durable", Field::Durable),
    ("priority", Field::Priority),
    ("ttl", Field::Ttl),
    ("first_acquirer", Field::FirstAcquirer),
    ("delivery_count", Field::DeliveryCount),
];

/// Fields of the properties, in their order on the wire, with the standard's names but for underscores.
const PROPERTIES: [(&str, Field); 13] = [
    ("message_id", Field::MessageId),
    ("user_id", Field::UserId),
    ("to", Field::To),
    ("subject", Field::Subject),
    ("reply_to", Field::ReplyTo),
    ("correlation_id", Field::CorrelationId),
    ("content_type", Field::ContentType),
    ("content_encoding", Field::ContentEncoding),
    ("absolute_expiry_time", Field::AbsoluteExpiryTime),
    ("creation_time", Field::CreationTime),
    ("group_id", Field::GroupId),
    ("group_sequence", Field::GroupSequence),
    ("reply_to_group_id", Field::ReplyToGroupId),
];

impl Field {
    /// The index of a field in the list of properties; none for one of the header.
    pub(super) fn properties_index(self) -> Option<usize> {
        PROPERTIES.iter().position(|(_, field)| *field == self)
    }
}

fn find(table: &[(&str, Field)], name: &str) -> Option<Field> {
    let is_same = |known: &str| {
        known.len() == name.len()
            && known
                .bytes()
                .zip(name.bytes())
                .all(|(a, b)| a == b || (a == b'_' && b == b'-'))
    };
    table
        .iter()
        .find_map(|(known, field)| is_same(known).then_some(*field))
}

/// A field of the header; hyphens and underscores are alike.
pub(super) fn header_field(name: &str) -> Option<Field> {
    find(&HEADER, name)
}

/// A field of the properties; hyphens and underscores are alike.
pub(super) fn properties_field(name: &str) -> Option<Field> {
    find(&PROPERTIES, name)
}

/// Something of a message that has a value or none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// A standard field.
    Field(Field),
    /// An application property.
    Property(Box<str>),
    /// A message annotation.
    Annotation(Box<str>),
    /// An entry of the footer.
    Footer(Box<str>),
    /// What JMS calls the delivery mode: a word instead of a boolean.
    DeliveryMode,
    /// Whether there was an attempt before.
    Redelivered,
    /// The number of this attempt, from 1.
    Attempt,
}

/// What an identifier of a JMS selector means: the names of JMS headers, `amqp.` with a standard field, or else an
/// application property.
pub(super) fn jms_place(name: &str) -> Place {
    let field = match name {
        "JMSMessageID" => Field::MessageId,
        "JMSTimestamp" => Field::CreationTime,
        "JMSCorrelationID" => Field::CorrelationId,
        "JMSReplyTo" => Field::ReplyTo,
        "JMSDestination" => Field::To,
        "JMSExpiration" => Field::AbsoluteExpiryTime,
        "JMSPriority" => Field::Priority,
        "JMSType" => Field::Subject,
        "JMSXUserID" => Field::UserId,
        "JMSXGroupID" => Field::GroupId,
        "JMSXGroupSeq" => Field::GroupSequence,
        "JMSDeliveryMode" => return Place::DeliveryMode,
        "JMSRedelivered" => return Place::Redelivered,
        "JMSXDeliveryCount" => return Place::Attempt,
        _ => {
            let field = name
                .strip_prefix("amqp.")
                .and_then(|name| header_field(name).or_else(|| properties_field(name)));
            return field.map_or_else(|| Place::Property(name.into()), Place::Field);
        }
    };
    Place::Field(field)
}

/// What a name behind a section means in the SQL of the filter expressions draft; an error text when nothing does.
pub(super) fn sql_place(section: &str, name: &str) -> Result<Place, String> {
    match section {
        "header" | "h" => header_field(name)
            .map(Place::Field)
            .ok_or_else(|| format!("the header has no field {name}")),
        "properties" | "p" => properties_field(name)
            .map(Place::Field)
            .ok_or_else(|| format!("the properties have no field {name}")),
        "application_properties" | "a" => Ok(Place::Property(name.into())),
        "message_annotations" | "m" => Ok(Place::Annotation(name.into())),
        "footer" | "f" => Ok(Place::Footer(name.into())),
        "delivery_annotations" | "d" => {
            Err("delivery annotations end at the broker and cannot be filtered on".to_owned())
        }
        _ => Err(format!(
            "there is no section {section}: use header, properties, application_properties, message_annotations or \
             footer"
        )),
    }
}
