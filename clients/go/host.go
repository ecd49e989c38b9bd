package leveret

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"
	"syscall"
)

// A host is the process `leveret test-brokers`, which runs this process's brokers. It and all its brokers end with this
// process, in whatever way that ends, because that closes its standard input.
type host struct {
	mutex    sync.Mutex
	requests io.Writer
	waiting  map[int]chan<- answer
	last     int
	ended    error
}

type answer struct {
	ID     int             `json:"id"`
	Answer json.RawMessage `json:"answer"`
	Error  *string         `json:"error"`
}

var (
	hostsMutex sync.Mutex
	hosts      = map[string]*host{}
)

// hostOf returns the process of a program, which runs from its first use on.
func hostOf(program string) (*host, error) {
	if program == "" {
		program = os.Getenv("LEVERET_PROGRAM")
	}
	if program == "" {
		program = "leveret"
	}
	hostsMutex.Lock()
	defer hostsMutex.Unlock()
	if running := hosts[program]; running != nil && running.end() == nil {
		return running, nil
	}
	started, err := startHost(program)
	if err != nil {
		return nil, fmt.Errorf("leveret: %w: unpack the directory of Leveret and name its program in LEVERET_PROGRAM", err)
	}
	hosts[program] = started
	return started, nil
}

func startHost(program string) (*host, error) {
	command := exec.Command(program, "test-brokers")
	command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // ^C at the terminal ends the tests, which then end it
	command.Stderr = os.Stderr
	requests, err := command.StdinPipe()
	if err != nil {
		return nil, err
	}
	answers, err := command.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := command.Start(); err != nil {
		return nil, err
	}
	started := &host{requests: requests, waiting: map[int]chan<- answer{}}
	go started.hear(answers, command)
	return started, nil
}

// next returns a number for a broker or a request.
func (h *host) next() int {
	h.mutex.Lock()
	defer h.mutex.Unlock()
	h.last++
	return h.last
}

func (h *host) end() error {
	h.mutex.Lock()
	defer h.mutex.Unlock()
	return h.ended
}

// ask sends a request and waits for its answer, which is stored in result unless that is nil.
func (h *host) ask(request string, broker int, values map[string]any, result any) error {
	id, heard := h.next(), make(chan answer, 1)
	message := map[string]any{"id": id, "request": request, "broker": broker}
	for name, value := range values {
		message[name] = value
	}
	line, err := json.Marshal(message)
	if err != nil {
		return err
	}
	if err := h.send(id, heard, append(line, '\n')); err != nil {
		return err
	}
	said, ok := <-heard
	if !ok {
		return h.end()
	}
	if said.Error != nil {
		return errors.New("leveret: " + *said.Error)
	}
	if result == nil {
		return nil
	}
	return json.Unmarshal(said.Answer, result)
}

func (h *host) send(id int, heard chan<- answer, line []byte) error {
	h.mutex.Lock()
	defer h.mutex.Unlock()
	if h.ended != nil {
		return h.ended
	}
	h.waiting[id] = heard
	_, err := h.requests.Write(line)
	if err != nil {
		delete(h.waiting, id)
	}
	return err
}

// hear passes answers on until the process ends.
func (h *host) hear(answers io.Reader, command *exec.Cmd) {
	reader := bufio.NewReader(answers)
	for {
		line, err := reader.ReadBytes('\n')
		if err != nil {
			break
		}
		var said answer
		if json.Unmarshal(line, &said) == nil {
			h.pass(said)
		}
	}
	err := command.Wait()
	h.mutex.Lock()
	defer h.mutex.Unlock()
	h.ended = fmt.Errorf("leveret: the process of the brokers has ended: %v", err)
	for _, heard := range h.waiting {
		close(heard)
	}
	h.waiting = nil
}

func (h *host) pass(said answer) {
	h.mutex.Lock()
	defer h.mutex.Unlock()
	if heard := h.waiting[said.ID]; heard != nil {
		delete(h.waiting, said.ID)
		heard <- said
	}
}
