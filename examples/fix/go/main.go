// A FIX client on quickfixgo: it logs on, subscribes to market data, rests a limit order, cancels it,
// and buys at the best offer. Everything that the exchange answers is printed.
//
//	go run . ../fix44.cfg
//
// Ends with 1 unless market data came, and orders were accepted, cancelled and filled.
package main

import (
	"fmt"
	"log"
	"os"
	"strconv"
	"sync"
	"time"

	"github.com/quickfixgo/quickfix"
	"github.com/quickfixgo/quickfix/datadictionary"
)

// Tags that are used here.
const (
	tagClOrdID                 = 11
	tagCumQty                  = 14
	tagHandlInst               = 21
	tagLastPx                  = 31
	tagLastQty                 = 32
	tagMsgType                 = 35
	tagOrderID                 = 37
	tagOrderQty                = 38
	tagOrdStatus               = 39
	tagOrdType                 = 40
	tagOrigClOrdID             = 41
	tagPrice                   = 44
	tagSide                    = 54
	tagSymbol                  = 55
	tagText                    = 58
	tagTimeInForce             = 59
	tagTransactTime            = 60
	tagNoRelatedSym            = 146
	tagExecType                = 150
	tagLeavesQty               = 151
	tagMDReqID                 = 262
	tagSubscriptionRequestType = 263
	tagMarketDepth             = 264
	tagMDUpdateType            = 265
	tagNoMDEntryTypes          = 267
	tagNoMDEntries             = 268
	tagMDEntryType             = 269
	tagMDEntryPx               = 270
	tagMDEntrySize             = 271
	tagMDUpdateAction          = 279
	tagPassword                = 554
)

const instrument = "GENA"

// report is what the sample wants to know of an ExecutionReport.
type report struct {
	order  string
	status string
	traded string
}

// market is what market data told: best prices, and how many trades.
type market struct {
	bid, offer float64
	trades     int
}

// client is the application that quickfixgo calls.
type client struct {
	settings map[quickfix.SessionID]*quickfix.SessionSettings
	// Of the application messages.
	dictionary *datadictionary.DataDictionary
	on         sync.Map // sessions that have been logged on
	logons     chan string
	reports    chan report
	best       market
	// The newest of them; it takes the place of one that was not looked at.
	prices chan market
	faults chan string
}

func (c *client) OnCreate(quickfix.SessionID) {}

func (c *client) OnLogon(id quickfix.SessionID) {
	fmt.Println("logged on:", id)
	c.on.Store(id, true)
	c.logons <- id.SenderCompID
}

// OnLogout is also called when the Logon is answered with a Logout, which FromAdmin does not see.
func (c *client) OnLogout(id quickfix.SessionID) {
	fmt.Println("logged out:", id)
	if _, was := c.on.Load(id); !was {
		c.faults <- "logon refused, the folder log has the exchange's reason"
	}
}

// ToAdmin adds the password to the Logon. A Reject of ours means that the exchange's message was not
// what the dictionary allows.
func (c *client) ToAdmin(message *quickfix.Message, id quickfix.SessionID) {
	switch {
	case message.IsMsgTypeOf("A"):
		password, err := c.settings[id].Setting("Password")
		if err != nil {
			log.Fatal(err)
		}
		message.Body.SetString(tagPassword, password)
	case message.IsMsgTypeOf("3"):
		c.faults <- "we rejected: " + text(message)
	}
}

func (c *client) ToApp(message *quickfix.Message, _ quickfix.SessionID) error {
	if message.IsMsgTypeOf("j") {
		c.faults <- "we rejected: " + text(message)
	}
	return nil
}

func (c *client) FromAdmin(message *quickfix.Message, _ quickfix.SessionID) quickfix.MessageRejectError {
	switch {
	case message.IsMsgTypeOf("3"):
		c.faults <- "rejected: " + text(message)
	case message.IsMsgTypeOf("5") && text(message) != "":
		c.faults <- "logout: " + text(message)
	}
	return nil
}

func (c *client) FromApp(message *quickfix.Message, _ quickfix.SessionID) quickfix.MessageRejectError {
	kind, err := message.MsgType()
	if err != nil {
		return err
	}
	switch kind {
	case "8":
		return c.executionReport(message)
	case "W", "X":
		return c.marketData(message, kind)
	case "9", "j", "Y":
		c.faults <- "refused: " + text(message)
	}
	return nil
}

func (c *client) executionReport(message *quickfix.Message) quickfix.MessageRejectError {
	field := func(tag quickfix.Tag) string {
		value, _ := message.Body.GetString(tag)
		return value
	}
	told := report{order: field(tagClOrdID), status: field(tagOrdStatus), traded: field(tagCumQty)}
	fmt.Printf("execution report: order %s, id %s, ExecType %s, OrdStatus %s, CumQty %s, LeavesQty %s",
		told.order, field(tagOrderID), field(tagExecType), told.status, told.traded, field(tagLeavesQty))
	switch field(tagExecType) {
	case "F", "1", "2": // a trade; FIX 4.2 says 1 or 2
		fmt.Printf(", traded %s at %s", field(tagLastQty), field(tagLastPx))
	case "8":
		fmt.Print(", refused: ", text(message))
	}
	fmt.Println()
	c.reports <- told
	return nil
}

// marketData keeps the best prices. With MarketDepth 1 whatever is not deleted is the best one.
func (c *client) marketData(message *quickfix.Message, kind string) quickfix.MessageRejectError {
	// What an entry may hold is what the dictionary says of this kind of message.
	template := quickfix.GroupTemplate{}
	for _, field := range c.dictionary.Messages[kind].Fields[tagNoMDEntries].Fields {
		template = append(template, quickfix.GroupElement(quickfix.Tag(field.Tag())))
	}
	entries := quickfix.NewRepeatingGroup(tagNoMDEntries, template)
	if err := message.Body.GetGroup(entries); err != nil {
		return err
	}
	for n := 0; n < entries.Len(); n++ {
		entry := entries.Get(n)
		side, _ := entry.GetString(tagMDEntryType)
		price, _ := entry.GetString(tagMDEntryPx)
		action, _ := entry.GetString(tagMDUpdateAction)
		value, err := strconv.ParseFloat(price, 64)
		if err != nil || action == "2" { // deleted
			continue
		}
		switch {
		case side == "0":
			c.best.bid = value
		case side == "1":
			c.best.offer = value
		case side == "2" && kind == "X": // a snapshot has the last trade of before
			size, _ := entry.GetString(tagMDEntrySize)
			fmt.Printf("market data: %s traded at %s\n", size, price)
			c.best.trades++
		}
	}
	select {
	case <-c.prices:
	default:
	}
	c.prices <- c.best
	return nil
}

func text(message *quickfix.Message) string {
	value, _ := message.Body.GetString(tagText)
	return value
}

// next waits for something of a channel, but not for ever.
func next[T any](c *client, what string, from chan T) T {
	select {
	case value := <-from:
		return value
	case fault := <-c.faults:
		log.Fatal("FAIL: ", fault)
	case <-time.After(20 * time.Second):
		log.Fatal("FAIL: not within 20 s: ", what)
	}
	panic("not reached")
}

// until waits until an order has this OrdStatus; it returns what of it has traded.
func until(c *client, order, status string) string {
	for {
		told := next(c, "OrdStatus "+status+" of "+order, c.reports)
		switch {
		case told.order != order:
		case told.status == status:
			return told.traded
		case told.status == "8":
			log.Fatal("FAIL: the order was refused")
		}
	}
}

func send(message *quickfix.Message, id quickfix.SessionID) {
	if err := quickfix.SendToTarget(message, id); err != nil {
		log.Fatal(err)
	}
}

func subscribe(id quickfix.SessionID) {
	request := quickfix.NewMessage()
	request.Header.SetString(tagMsgType, "V")
	request.Body.SetString(tagMDReqID, "best")
	request.Body.SetString(tagSubscriptionRequestType, "1") // a snapshot, then refreshes
	request.Body.SetInt(tagMarketDepth, 1)                  // best prices
	request.Body.SetInt(tagMDUpdateType, 1)                 // refreshes tell what changed
	kinds := quickfix.NewRepeatingGroup(tagNoMDEntryTypes,
		quickfix.GroupTemplate{quickfix.GroupElement(tagMDEntryType)})
	kinds.Add().SetString(tagMDEntryType, "0") // bid
	kinds.Add().SetString(tagMDEntryType, "1") // offer
	kinds.Add().SetString(tagMDEntryType, "2") // trade
	request.Body.SetGroup(kinds)
	symbols := quickfix.NewRepeatingGroup(tagNoRelatedSym,
		quickfix.GroupTemplate{quickfix.GroupElement(tagSymbol)})
	symbols.Add().SetString(tagSymbol, instrument)
	request.Body.SetGroup(symbols)
	send(request, id)
}

// buy enters a limit order; life is its TimeInForce: 0 day, 3 immediate or cancel.
func buy(id quickfix.SessionID, name string, lots int, price float64, life string) {
	fmt.Printf("buying %d at %.2f, order %s\n", lots, price, name)
	order := quickfix.NewMessage()
	order.Header.SetString(tagMsgType, "D")
	order.Body.SetString(tagClOrdID, name)
	order.Body.SetString(tagHandlInst, "1") // FIX 4.2 wants it, later versions allow it
	order.Body.SetString(tagSymbol, instrument)
	order.Body.SetString(tagSide, "1")
	order.Body.SetField(tagTransactTime, quickfix.FIXUTCTimestamp{Time: time.Now().UTC()})
	order.Body.SetInt(tagOrderQty, lots)
	order.Body.SetString(tagOrdType, "2") // limit
	order.Body.SetString(tagPrice, strconv.FormatFloat(price, 'f', 2, 64))
	order.Body.SetString(tagTimeInForce, life)
	send(order, id)
}

func cancel(id quickfix.SessionID, name, order string) {
	request := quickfix.NewMessage()
	request.Header.SetString(tagMsgType, "F")
	request.Body.SetString(tagOrigClOrdID, order)
	request.Body.SetString(tagClOrdID, name)
	request.Body.SetString(tagSymbol, instrument)
	request.Body.SetString(tagSide, "1")
	request.Body.SetField(tagTransactTime, quickfix.FIXUTCTimestamp{Time: time.Now().UTC()})
	send(request, id)
}

func main() {
	if len(os.Args) != 2 {
		log.Fatal("usage: go run . ../fix44.cfg")
	}
	file, err := os.Open(os.Args[1])
	if err != nil {
		log.Fatal(err)
	}
	settings, err := quickfix.ParseSettings(file)
	if err != nil {
		log.Fatal(err)
	}
	c := &client{
		settings: settings.SessionSettings(),
		logons:   make(chan string, 10),
		reports:  make(chan report, 100),
		prices:   make(chan market, 1),
		faults:   make(chan string, 100),
	}
	roles := map[string]quickfix.SessionID{}
	for id, of := range c.settings {
		if role, err := of.Setting("Role"); err == nil {
			roles[role] = id
		}
	}
	path, err := settings.GlobalSettings().Setting("DataDictionary")
	if err != nil { // FIX 5.0 SP2 has two
		path, err = settings.GlobalSettings().Setting("AppDataDictionary")
	}
	if err != nil {
		log.Fatal(err)
	}
	if c.dictionary, err = datadictionary.Parse(path); err != nil {
		log.Fatal(err)
	}
	logs, err := quickfix.NewFileLogFactory(settings)
	if err != nil {
		log.Fatal(err)
	}
	initiator, err := quickfix.NewInitiator(c, quickfix.NewMemoryStoreFactory(), settings, logs)
	if err != nil {
		log.Fatal(err)
	}
	if err := initiator.Start(); err != nil {
		log.Fatal(err)
	}
	for range roles {
		next(c, "logon", c.logons)
	}

	subscribe(roles["market-data"])
	best := market{}
	for best.bid == 0 || best.offer == 0 {
		best = next(c, "a bid and an offer", c.prices)
	}
	fmt.Printf("best prices: %.2f / %.2f\n", best.bid, best.offer)

	// Names of orders are 14 characters at most, and those of open orders must differ.
	run := strconv.FormatInt(time.Now().Unix()%1_000_000_000, 10)
	rests, cancels, takes := "r"+run, "c"+run, "t"+run
	orders := roles["orders"]
	buy(orders, rests, 10, best.bid-5, "0")
	until(c, rests, "0")
	// The report of a cancel has the cancel's own ClOrdID, and the order's as OrigClOrdID.
	cancel(orders, cancels, rests)
	until(c, cancels, "4")
	buy(orders, takes, 10, best.offer+1, "3")
	traded := until(c, takes, "2")
	for best.trades == 0 {
		best = next(c, "a trade told by market data", c.prices)
	}

	initiator.Stop()
	select {
	case fault := <-c.faults:
		log.Fatal("FAIL: ", fault)
	default:
	}
	fmt.Printf("done: %s, an order accepted and cancelled, another filled with %s lots\n",
		orders.BeginString, traded)
}
