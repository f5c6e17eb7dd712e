// amqp091-go publishes numbers with confirms, over as many connections as it takes.
//
// Enters: AMQP_URL; the queue as argument; the end of standard input. Leaves: each confirmed number on standard output.
// Owns:   a connection at a time.
// Never:  goes on behind a batch that is not confirmed: after a lost connection it publishes that one again.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

const (
	batch    = 20
	deadline = 60 * time.Second
)

var errRefused = errors.New("a publish was refused")

// publish publishes from a number on, until the connection is lost or the end has come. Returns the first that is not confirmed.
func publish(queue string, number int, end <-chan struct{}) (int, error) {
	conn, err := amqp.Dial(os.Getenv("AMQP_URL"))
	if err != nil {
		return number, err
	}
	defer conn.Close()
	ch, err := conn.Channel()
	if err != nil {
		return number, err
	}
	if err := ch.Confirm(false); err != nil {
		return number, err
	}
	for {
		select {
		case <-end:
			return number, nil
		default:
		}
		var confirms [batch]*amqp.DeferredConfirmation
		for i := range confirms {
			message := amqp.Publishing{DeliveryMode: amqp.Persistent, Body: []byte(strconv.Itoa(number + i))}
			if confirms[i], err = ch.PublishWithDeferredConfirm("", queue, false, false, message); err != nil {
				return number, err
			}
		}
		until, cancel := context.WithTimeout(context.Background(), deadline)
		defer cancel()
		for _, confirm := range confirms {
			taken, err := confirm.WaitContext(until)
			if err != nil {
				return number, err
			}
			if !taken {
				return number, errRefused
			}
			fmt.Println(number)
			number++
		}
	}
}

func main() {
	end := make(chan struct{})
	go func() {
		if _, err := io.Copy(io.Discard, os.Stdin); err != nil {
			fmt.Fprintln(os.Stderr, err)
		}
		close(end)
	}()
	number := 0
	for {
		var err error
		number, err = publish(os.Args[1], number, end)
		select {
		case <-end:
			return
		default:
		}
		if err != nil {
			time.Sleep(20 * time.Millisecond) // between two tries, until the broker is back
		}
	}
}
