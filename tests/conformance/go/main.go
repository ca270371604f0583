// Runs one named scenario of the stock Go client and prints its result as one line of JSON.
//
// What a scenario returns as its error is printed with the client's own code, because that is
// what the tests look at. The scenarios live beside this file, one file for each subject.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus"
	"github.com/Azure/go-amqp"
)

// Input is what a test gives a scenario; each takes what it needs.
type Input struct {
	Connection   string `json:"connection"`
	Queue        string `json:"queue"`
	Topic        string `json:"topic"`
	Subscription string `json:"subscription"`
	Count        int    `json:"count"`
	Size         int    `json:"size"`
	WebSocket    bool   `json:"webSocket"`
	Endpoint     string `json:"endpoint"`
}

// Scenario is what a user of the client does; its result goes to the test as JSON.
type Scenario func(Input) (any, error)

var scenarios = map[string]Scenario{}

func main() {
	var input Input
	if err := json.Unmarshal([]byte(os.Args[2]), &input); err != nil {
		panic(err)
	}
	scenario, ok := scenarios[os.Args[1]]
	if !ok {
		panic(fmt.Sprintf("there is no scenario %q", os.Args[1]))
	}
	result, err := scenario(input)
	outcome := map[string]any{"result": result}
	if err != nil {
		outcome = map[string]any{"error": map[string]any{"code": code(err), "text": err.Error()}}
	}
	line, err := json.Marshal(outcome)
	if err != nil {
		panic(err)
	}
	fmt.Println(string(line))
}

func code(err error) string {
	var known *azservicebus.Error
	if errors.As(err, &known) {
		return string(known.Code)
	}
	var answered *azcore.ResponseError
	if errors.As(err, &answered) {
		return fmt.Sprint(answered.StatusCode)
	}
	if errors.Is(err, azservicebus.ErrMessageTooLarge) {
		return "toolarge"
	}
	// The client asks the server for a time that ends with its own deadline: either may come first.
	if errors.Is(err, context.DeadlineExceeded) {
		return "timeout"
	}
	// The client gives an error of the protocol that it has no code for as it came.
	var refused *amqp.Error
	if errors.As(err, &refused) {
		return string(refused.Condition)
	}
	return ""
}
