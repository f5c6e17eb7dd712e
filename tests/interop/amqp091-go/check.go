// amqp091-go's run of the expectations.
//
// Enters: AMQP_URL, over TLS also AMQP_CA, AMQP_CERTIFICATE and AMQP_KEY. Leaves: a line for each expectation on standard output, as ../report.py has them.
// Owns:   its connections; queues and exchanges of its own names, deleted in the end.
// Never:  sleeps: every wait is for a message or an event, with a deadline.
package main

import (
	"bytes"
	"crypto/x509"
	"errors"
	"fmt"
	"net/url"
	"os"
	"strings"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

const deadline = 15 * time.Second

var serial int

func unique(word string) string {
	serial++
	return fmt.Sprintf("go-%s-%d-%d", word, os.Getpid(), serial)
}

// broken is what a failed expectation panics with; the runner reports it.
type broken struct{ why string }

func must[T any](value T, err error) T {
	if err != nil {
		panic(broken{err.Error()})
	}
	return value
}

func check(err error) {
	if err != nil {
		panic(broken{err.Error()})
	}
}

func equal[T comparable](got, want T, what string) {
	if got != want {
		panic(broken{fmt.Sprintf("%s: got %v, expected %v", what, got, want)})
	}
}

func next[T any](from <-chan T, what string) T {
	select {
	case value, open := <-from:
		if !open {
			panic(broken{"closed while waiting for " + what})
		}
		return value
	case <-time.After(deadline):
		panic(broken{"not in time: " + what})
	}
}

func refused(err error, code int, text string) {
	var said *amqp.Error
	if !errors.As(err, &said) {
		panic(broken{fmt.Sprintf("got %v, expected %d %s", err, code, text)})
	}
	equal(said.Code, code, "reply code")
	// The library appends class and method to the text in some versions.
	if said.Reason != text {
		panic(broken{fmt.Sprintf("got text %q, expected %q", said.Reason, text)})
	}
}

// address is AMQP_URL, with what the library reads of TLS in it: the broker is verified, and this side shows its certificate.
func address(authority string) string {
	if authority == "" {
		return os.Getenv("AMQP_URL")
	}
	words := url.Values{"cacertfile": {authority}, "certfile": {os.Getenv("AMQP_CERTIFICATE")}, "keyfile": {os.Getenv("AMQP_KEY")}, "auth_mechanism": {"external"}}
	return os.Getenv("AMQP_URL") + "?" + words.Encode()
}

func dial() *amqp.Connection {
	return must(amqp.DialConfig(address(os.Getenv("AMQP_CA")), amqp.Config{Heartbeat: 10 * time.Second, Dial: amqp.DefaultDial(deadline)}))
}

// scene is a connection and its channel, for one expectation.
type scene struct {
	conn *amqp.Connection
	ch   *amqp.Channel
}

func (s scene) temporary() string {
	return must(s.ch.QueueDeclare("", false, false, true, false, nil)).Name
}

func (s scene) ready(queue string) int {
	return must(s.ch.QueueDeclarePassive(queue, false, false, false, false, nil)).Messages
}

func (s scene) publish(exchange, key, body string) {
	check(s.ch.Publish(exchange, key, false, false, amqp.Publishing{Body: []byte(body)}))
}

// filled makes a queue with messages "0", "1", …; their order is that of this channel.
func (s scene) filled(count int) string {
	queue := s.temporary()
	side := must(s.conn.Channel())
	check(side.Confirm(false))
	for i := range count {
		confirm := must(side.PublishWithDeferredConfirm("", queue, false, false, amqp.Publishing{Body: fmt.Append(nil, i)}))
		equal(confirm.Wait(), true, "confirm")
	}
	check(side.Close())
	return queue
}

func (s scene) consume(queue string, autoAck bool) <-chan amqp.Delivery {
	return must(s.ch.Consume(queue, "", autoAck, false, false, false, nil))
}

func take(from <-chan amqp.Delivery, count int) []amqp.Delivery {
	var got []amqp.Delivery
	for len(got) < count {
		got = append(got, next(from, fmt.Sprintf("delivery %d of %d", len(got)+1, count)))
	}
	return got
}

func texts(deliveries []amqp.Delivery) string {
	var words []string
	for _, delivery := range deliveries {
		word := string(delivery.Body)
		if delivery.Redelivered {
			word += "r"
		}
		words = append(words, word)
	}
	return strings.Join(words, " ")
}

// routed says whether a mandatory publish reached a queue. The channel is in confirm mode.
func (s scene) routed(returns <-chan amqp.Return, exchange, key string, headers amqp.Table) bool {
	confirm := must(s.ch.PublishWithDeferredConfirm(exchange, key, true, false, amqp.Publishing{Headers: headers}))
	equal(confirm.Wait(), true, "confirm")
	select {
	case <-returns:
		return false
	default:
		return true
	}
}

type expectation struct {
	name string
	run  func(scene)
}

var expectations = []expectation{
	{"connect", func(s scene) {
		for _, name := range []string{"publisher_confirms", "exchange_exchange_bindings", "basic.nack", "consumer_cancel_notify", "connection.blocked", "consumer_priorities", "authentication_failure_close", "per_consumer_qos", "direct_reply_to"} {
			equal(s.conn.Properties["capabilities"].(amqp.Table)[name] == true, true, name)
		}
		other := dial()
		check(other.Close())
	}},
	{"exchanges", func(s scene) {
		for _, kind := range []string{"direct", "fanout", "topic", "headers"} {
			name := unique(kind)
			check(s.ch.ExchangeDeclare(name, kind, true, false, false, false, nil))
			check(s.ch.ExchangeDeclare(name, kind, true, false, false, false, nil))
			check(s.ch.ExchangeDeclarePassive(name, kind, true, false, false, false, nil))
			check(s.ch.ExchangeDelete(name, false, false))
			refused(must(s.conn.Channel()).ExchangeDeclarePassive(name, kind, true, false, false, false, nil), 404, "NOT_FOUND - no exchange '"+name+"' in vhost '/'")
		}
	}},
	{"queues", func(s scene) {
		equal(strings.HasPrefix(s.temporary(), "amq.gen-"), true, "server-named")
		name := unique("queue")
		must(s.ch.QueueDeclare(name, true, false, false, false, nil))
		check(s.ch.Confirm(false))
		for range 3 {
			equal(must(s.ch.PublishWithDeferredConfirm("", name, false, false, amqp.Publishing{})).Wait(), true, "confirm")
		}
		equal(s.ready(name), 3, "ready")
		equal(must(s.ch.QueuePurge(name, false)), 3, "purged")
		equal(must(s.ch.PublishWithDeferredConfirm("", name, false, false, amqp.Publishing{})).Wait(), true, "confirm")
		equal(must(s.ch.QueueDelete(name, false, false, false)), 1, "deleted")
	}},
	{"exclusive-queue", func(s scene) {
		name := unique("exclusive")
		must(s.ch.QueueDeclare(name, false, false, true, false, nil))
		other := dial()
		_, err := must(other.Channel()).QueueDeclarePassive(name, false, false, false, false, nil)
		refused(err, 405, "RESOURCE_LOCKED - cannot obtain exclusive access to locked queue '"+name+"' in vhost '/'. It could be originally declared on another connection or the exclusive property value does not match that of the original declaration.")
		check(other.Close())
	}},
	{"auto-delete", func(s scene) {
		name := unique("auto")
		must(s.ch.QueueDeclare(name, false, true, false, false, nil))
		must(s.ch.Consume(name, "tag", true, false, false, false, nil))
		check(s.ch.Cancel("tag", false))
		_, err := s.ch.QueueDeclarePassive(name, false, true, false, false, nil)
		refused(err, 404, "NOT_FOUND - no queue '"+name+"' in vhost '/'")
	}},
	{"refusals", func(s scene) {
		name := unique("refused")
		must(s.ch.QueueDeclare(name, false, true, false, false, nil))
		_, err := must(s.conn.Channel()).QueueDeclare(name, true, true, false, false, nil)
		refused(err, 406, "PRECONDITION_FAILED - inequivalent arg 'durable' for queue '"+name+"' in vhost '/': received 'true' but current is 'false'")
		refused(must(s.conn.Channel()).ExchangeDeclare("amq."+name, "direct", false, false, false, false, nil), 403, "ACCESS_REFUSED - exchange name 'amq."+name+"' contains reserved prefix 'amq.*'")
		refused(must(s.conn.Channel()).QueueBind(name, "k", name, false, nil), 404, "NOT_FOUND - no exchange '"+name+"' in vhost '/'")
		side := must(s.conn.Channel())
		closed := side.NotifyClose(make(chan *amqp.Error, 1))
		check(side.Publish(name, "k", false, false, amqp.Publishing{}))
		refused(next(closed, "channel close"), 404, "NOT_FOUND - no exchange '"+name+"' in vhost '/'")
		must(s.ch.QueueDelete(name, false, false, false))
	}},
	{"connection-refusal", func(s scene) {
		closed := s.conn.NotifyClose(make(chan *amqp.Error, 1))
		equal(s.ch.ExchangeDeclare(unique("x"), "nonsense", false, false, false, false, nil) != nil, true, "refused")
		refused(next(closed, "connection close"), 503, "COMMAND_INVALID - unknown exchange type 'nonsense'")
	}},
	{"bind-unbind", func(s scene) {
		returns := s.ch.NotifyReturn(make(chan amqp.Return, 100))
		check(s.ch.Confirm(false))
		queue := s.temporary()
		check(s.ch.QueueBind(queue, "go-bind", "amq.direct", false, nil))
		check(s.ch.QueueBind(queue, "go-bind", "amq.direct", false, nil))
		equal(s.routed(returns, "amq.direct", "go-bind", nil), true, "bound")
		equal(s.ready(queue), 1, "one copy")
		check(s.ch.QueueUnbind(queue, "go-bind", "amq.direct", nil))
		equal(s.routed(returns, "amq.direct", "go-bind", nil), false, "unbound")
	}},
	{"bind-exchange", func(s scene) {
		returns := s.ch.NotifyReturn(make(chan amqp.Return, 100))
		check(s.ch.Confirm(false))
		queue, first, second := s.temporary(), unique("first"), unique("second")
		check(s.ch.ExchangeDeclare(first, "fanout", false, false, false, false, nil))
		check(s.ch.ExchangeDeclare(second, "direct", false, false, false, false, nil))
		check(s.ch.ExchangeBind(second, "k", first, false, nil))
		check(s.ch.QueueBind(queue, "k", second, false, nil))
		equal(s.routed(returns, first, "k", nil), true, "over both")
		check(s.ch.ExchangeUnbind(second, "k", first, false, nil))
		equal(s.routed(returns, first, "k", nil), false, "unbound")
		check(s.ch.ExchangeDelete(first, false, false))
		check(s.ch.ExchangeDelete(second, false, false))
	}},
	{"topic", func(s scene) {
		returns := s.ch.NotifyReturn(make(chan amqp.Return, 100))
		check(s.ch.Confirm(false))
		exchange := unique("topic")
		check(s.ch.ExchangeDeclare(exchange, "topic", false, true, false, false, nil))
		check(s.ch.QueueBind(s.temporary(), "a.*.c.#", exchange, false, nil))
		for key, want := range map[string]bool{"a.b.c": true, "a.b.c.d.e": true, "a.c": false, "a.b.b.c": false, "": false} {
			equal(s.routed(returns, exchange, key, nil), want, key)
		}
	}},
	{"headers", func(s scene) {
		returns := s.ch.NotifyReturn(make(chan amqp.Return, 100))
		check(s.ch.Confirm(false))
		for _, match := range []string{"all", "any"} {
			exchange := unique("headers")
			check(s.ch.ExchangeDeclare(exchange, "headers", false, true, false, false, nil))
			check(s.ch.QueueBind(s.temporary(), "", exchange, false, amqp.Table{"x-match": match, "a": int32(1), "b": "two"}))
			equal(s.routed(returns, exchange, "", amqp.Table{"a": int64(1), "b": "two"}), true, match+" both, of another integer width")
			equal(s.routed(returns, exchange, "", amqp.Table{"a": int32(1)}), match == "any", match+" one")
			equal(s.routed(returns, exchange, "", amqp.Table{"c": "3"}), false, match+" none")
		}
	}},
	{"alternate-exchange", func(s scene) {
		returns := s.ch.NotifyReturn(make(chan amqp.Return, 100))
		check(s.ch.Confirm(false))
		queue, main, alternate := s.temporary(), unique("main"), unique("alternate")
		check(s.ch.ExchangeDeclare(alternate, "fanout", false, true, false, false, nil))
		check(s.ch.ExchangeDeclare(main, "direct", false, false, false, false, amqp.Table{"alternate-exchange": alternate}))
		check(s.ch.QueueBind(queue, "", alternate, false, nil))
		equal(s.routed(returns, main, "anything", nil), true, "by the alternate")
		check(s.ch.ExchangeDelete(main, false, false))
	}},
	{"publish-consume", func(s scene) {
		queue := s.temporary()
		deliveries := s.consume(queue, true)
		sent := amqp.Publishing{
			Headers:     amqp.Table{"s": "ü", "i": int32(5), "l": int64(1) << 40, "t": true, "n": nil, "f": 1.5, "y": []byte{0, 255}, "b": int8(-3), "h": int16(-300), "time": time.Unix(1700000000, 0), "d": amqp.Decimal{Scale: 2, Value: 314}, "a": []any{int32(1), "two"}, "F": amqp.Table{"x": int32(1)}},
			ContentType: "text/plain", ContentEncoding: "utf-8", DeliveryMode: 2, Priority: 7, CorrelationId: "c", ReplyTo: "r", Expiration: "60000", MessageId: "m", Timestamp: time.Unix(1700000000, 0), Type: "t", AppId: "a", Body: []byte("0"),
		}
		check(s.ch.Publish("", queue, false, false, sent))
		for i := 1; i < 1000; i++ {
			s.publish("", queue, fmt.Sprint(i))
		}
		for i, delivery := range take(deliveries, 1000) {
			equal(string(delivery.Body), fmt.Sprint(i), "order")
			if i == 0 {
				equal(fmt.Sprint(delivery.Headers), fmt.Sprint(sent.Headers), "headers")
				equal(fmt.Sprint(delivery.ContentType, delivery.ContentEncoding, delivery.DeliveryMode, delivery.Priority, delivery.CorrelationId, delivery.ReplyTo, delivery.Expiration, delivery.MessageId, delivery.Timestamp.Unix(), delivery.Type, delivery.AppId),
					fmt.Sprint(sent.ContentType, sent.ContentEncoding, sent.DeliveryMode, sent.Priority, sent.CorrelationId, sent.ReplyTo, sent.Expiration, sent.MessageId, sent.Timestamp.Unix(), sent.Type, sent.AppId), "properties")
			}
		}
	}},
	{"confirm", func(s scene) {
		check(s.ch.Confirm(false))
		queue := s.temporary()
		var waits []*amqp.DeferredConfirmation
		for i := range 500 {
			key := queue
			if i%2 == 1 {
				key = "go-nowhere"
			}
			waits = append(waits, must(s.ch.PublishWithDeferredConfirm("", key, false, false, amqp.Publishing{})))
		}
		for _, wait := range waits {
			equal(wait.Wait(), true, "confirm")
		}
		equal(s.ready(queue), 250, "ready")
	}},
	{"return", func(s scene) {
		returns := s.ch.NotifyReturn(make(chan amqp.Return, 1))
		check(s.ch.Publish("amq.direct", "go-nowhere", true, false, amqp.Publishing{Body: []byte("back"), Type: "t"}))
		back := next(returns, "return")
		equal(fmt.Sprint(back.ReplyCode, back.ReplyText, back.Exchange, back.RoutingKey, back.Type, string(back.Body)), fmt.Sprint(312, "NO_ROUTE", "amq.direct", "go-nowhere", "t", "back"), "return")
	}},
	{"immediate", func(s scene) {
		closed := s.conn.NotifyClose(make(chan *amqp.Error, 1))
		check(s.ch.Publish("", "go-nowhere", false, true, amqp.Publishing{}))
		refused(next(closed, "connection close"), 540, "NOT_IMPLEMENTED - immediate=true")
	}},
	{"ack-multiple", func(s scene) {
		queue := s.filled(5)
		got := take(s.consume(queue, false), 5)
		check(got[2].Ack(true))
		check(s.ch.Close())
		s.ch = must(s.conn.Channel())
		deliveries := s.consume(queue, false)
		equal(texts(take(deliveries, 2)), "3r 4r", "what was not acknowledged")
		check(s.ch.Ack(0, true))
		equal(s.ready(queue), 0, "ready")
	}},
	{"nack-requeue", func(s scene) {
		queue := s.filled(5)
		var got []amqp.Delivery
		for range 4 {
			delivery, _, err := s.ch.Get(queue, false)
			check(err)
			got = append(got, delivery)
		}
		check(got[2].Nack(false, true))
		check(got[0].Nack(false, true))
		check(s.ch.Nack(0, true, true))
		equal(texts(take(s.consume(queue, true), 5)), "0r 1r 2r 3r 4", "the old places")
	}},
	{"reject", func(s scene) {
		queue := s.filled(3)
		deliveries := s.consume(queue, false)
		got := take(deliveries, 3)
		check(got[0].Reject(true))
		check(got[1].Reject(false))
		equal(texts(take(deliveries, 1)), "0r", "requeued")
		equal(s.ready(queue), 0, "ready")
	}},
	{"recover", func(s scene) {
		queue := s.filled(3)
		deliveries := s.consume(queue, false)
		got := take(deliveries, 3)
		check(got[1].Ack(false))
		check(s.ch.Recover(true))
		equal(texts(take(deliveries, 2)), "0r 2r", "recovered")
	}},
	{"close-requeues", func(s scene) {
		queue := s.filled(3)
		side := scene{s.conn, must(s.conn.Channel())}
		take(side.consume(queue, false), 3)
		check(side.ch.Close())
		equal(texts(take(s.consume(queue, true), 3)), "0r 1r 2r", "requeued")
	}},
	{"qos-consumer", func(s scene) {
		queue := s.filled(9)
		check(s.ch.Qos(2, 0, false))
		first := s.consume(queue, false)
		got := take(first, 2)
		check(s.ch.Qos(3, 0, false))
		take(s.consume(queue, false), 3)
		equal(s.ready(queue), 4, "ready")
		check(got[0].Ack(false))
		take(first, 1)
		equal(s.ready(queue), 3, "ready")
	}},
	{"qos-global", func(s scene) {
		queue := s.filled(9)
		check(s.ch.Qos(3, 0, true))
		first, second := s.consume(queue, false), s.consume(queue, false)
		for i := range 3 {
			select {
			case <-first:
			case <-second:
			case <-time.After(deadline):
				panic(broken{fmt.Sprintf("delivery %d", i)})
			}
		}
		equal(s.ready(queue), 6, "ready")
	}},
	{"get", func(s scene) {
		queue := s.filled(2)
		delivery, found, err := s.ch.Get(queue, false)
		check(err)
		equal(fmt.Sprint(found, string(delivery.Body), delivery.MessageCount, delivery.Redelivered, delivery.RoutingKey), fmt.Sprint(true, "0", 1, false, queue), "get")
		_, _, err = s.ch.Get(queue, true)
		check(err)
		_, found, err = s.ch.Get(queue, true)
		check(err)
		equal(found, false, "empty")
	}},
	{"tx", func(s scene) {
		queue := s.filled(1)
		check(s.ch.Tx())
		s.publish("", queue, "rolled back")
		check(s.ch.TxRollback())
		s.publish("", queue, "committed")
		equal(s.ready(queue), 1, "before the commit")
		check(s.ch.TxCommit())
		equal(s.ready(queue), 2, "after the commit")
		got := take(s.consume(queue, false), 2)
		check(got[0].Ack(false))
		check(s.ch.TxCommit())
		check(s.ch.Close())
		side := scene{s.conn, must(s.conn.Channel())}
		equal(texts(take(side.consume(queue, true), 1)), "committedr", "what was not acknowledged")
	}},
	{"cancel-notify", func(s scene) {
		name := unique("cancel")
		must(s.ch.QueueDeclare(name, false, false, false, false, nil))
		cancelled := s.ch.NotifyCancel(make(chan string, 1))
		must(s.ch.Consume(name, "tag", true, false, false, false, nil))
		must(must(s.conn.Channel()).QueueDelete(name, false, false, false))
		equal(next(cancelled, "basic.cancel"), "tag", "consumer tag")
	}},
	{"consume-exclusive", func(s scene) {
		queue := s.temporary()
		must(s.ch.Consume(queue, "", true, true, false, false, nil))
		_, err := must(s.conn.Channel()).Consume(queue, "", true, false, false, false, nil)
		refused(err, 403, "ACCESS_REFUSED - queue '"+queue+"' in vhost '/' in exclusive use")
	}},
	{"consumer-priority", func(s scene) {
		queue := s.temporary()
		check(s.ch.Qos(2, 0, false))
		low := s.consume(queue, false)
		high := must(s.ch.Consume(queue, "", false, false, false, false, amqp.Table{"x-priority": int32(10)}))
		for i := range 4 {
			s.publish("", queue, fmt.Sprint(i))
		}
		equal(texts(take(high, 2)), "0 1", "the higher priority")
		equal(texts(take(low, 2)), "2 3", "the lower priority")
	}},
	{"direct-reply-to", func(s scene) {
		requests := s.temporary()
		server := scene{s.conn, must(s.conn.Channel())}
		asked := server.consume(requests, true)
		replies := s.consume("amq.rabbitmq.reply-to", true)
		check(s.ch.Publish("", requests, false, false, amqp.Publishing{ReplyTo: "amq.rabbitmq.reply-to", Body: []byte("ask")}))
		request := next(asked, "request")
		check(server.ch.Publish("", request.ReplyTo, false, false, amqp.Publishing{Body: []byte("answer")}))
		equal(string(next(replies, "reply").Body), "answer", "reply")
	}},
	{"bodies", func(s scene) {
		queue := s.temporary()
		deliveries := s.consume(queue, true)
		pattern := make([]byte, 5<<20)
		for i := range pattern {
			pattern[i] = byte(i*7 + i>>9)
		}
		for _, size := range []int{0, 1, 4095, 128 << 10, 1 << 20, 5 << 20, 0} {
			check(s.ch.Publish("", queue, false, false, amqp.Publishing{Body: pattern[:size]}))
			equal(bytes.Equal(next(deliveries, "delivery").Body, pattern[:size]), true, fmt.Sprint(size, " bytes unchanged"))
		}
	}},
	{"heartbeat", func(scene) {
		conn := must(amqp.DialConfig(address(os.Getenv("AMQP_CA")), amqp.Config{Heartbeat: time.Second}))
		equal(conn.Config.Heartbeat, time.Second, "negotiated")
		// Idle for more than two intervals: only a lost connection may say something.
		select {
		case err := <-conn.NotifyClose(make(chan *amqp.Error, 1)):
			panic(broken{fmt.Sprintf("closed: %v", err)})
		case <-time.After(4 * time.Second):
		}
		scene{conn, must(conn.Channel())}.temporary()
		check(conn.Close())
	}},
	{"update-secret", func(s scene) {
		uri := must(amqp.ParseURI(os.Getenv("AMQP_URL")))
		check(s.conn.UpdateSecret(uri.Password, "renewed"))
		s.temporary()
	}},
	{"channels", func(s scene) {
		queue := s.temporary()
		deliveries := s.consume(queue, true)
		var many []*amqp.Channel
		for range 100 {
			many = append(many, must(s.conn.Channel()))
		}
		for i, channel := range many {
			check(channel.Publish("", queue, false, false, amqp.Publishing{Body: fmt.Append(nil, i)}))
		}
		take(deliveries, 100)
		for _, channel := range many {
			check(channel.Close())
		}
		must(s.conn.Channel())
	}},
}

func attempt(run func(scene)) (why string) {
	defer func() {
		if caught := recover(); caught != nil {
			known, is := caught.(broken)
			if !is {
				panic(caught)
			}
			why = known.why
		}
	}()
	conn := dial()
	defer conn.Close()
	run(scene{conn, must(conn.Channel())})
	return ""
}

func main() {
	only := map[string]bool{}
	for _, name := range strings.Split(os.Getenv("INTEROP_ONLY"), ",") {
		only[name] = name != ""
	}
	if foreign := os.Getenv("AMQP_FOREIGN_CA"); foreign != "" {
		expectations = append(expectations, expectation{"tls-foreign-authority", func(scene) {
			_, err := amqp.Dial(address(foreign))
			var unknown x509.UnknownAuthorityError
			equal(errors.As(err, &unknown), true, fmt.Sprint("refused for its authority: ", err))
		}})
	}
	failed := false
	for _, expectation := range expectations {
		if os.Getenv("INTEROP_ONLY") != "" && !only[expectation.name] {
			continue
		}
		if why := attempt(expectation.run); why != "" {
			failed = true
			fmt.Printf("not ok %s - %s\n", expectation.name, strings.ReplaceAll(why, "\n", " "))
		} else {
			fmt.Println("ok", expectation.name)
		}
	}
	if failed {
		os.Exit(1)
	}
}
