import java.time.LocalDateTime;
import java.time.ZoneOffset;
import java.util.Iterator;
import java.util.Locale;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.TimeUnit;

import quickfix.ConfigError;
import quickfix.DefaultMessageFactory;
import quickfix.FileLogFactory;
import quickfix.Group;
import quickfix.MemoryStoreFactory;
import quickfix.Message;
import quickfix.Session;
import quickfix.SessionID;
import quickfix.SessionNotFound;
import quickfix.SessionSettings;
import quickfix.SocketInitiator;
import quickfix.field.ClOrdID;
import quickfix.field.HandlInst;
import quickfix.field.MDEntryType;
import quickfix.field.MDReqID;
import quickfix.field.MDUpdateType;
import quickfix.field.MarketDepth;
import quickfix.field.MsgType;
import quickfix.field.NoMDEntryTypes;
import quickfix.field.NoRelatedSym;
import quickfix.field.OrdStatus;
import quickfix.field.OrdType;
import quickfix.field.OrderQty;
import quickfix.field.OrigClOrdID;
import quickfix.field.Price;
import quickfix.field.Side;
import quickfix.field.SubscriptionRequestType;
import quickfix.field.Symbol;
import quickfix.field.TimeInForce;
import quickfix.field.TransactTime;

/**
 * A FIX client on QuickFIX/J: it logs on, subscribes to market data, rests a limit order, cancels it,
 * and buys at the best offer. Everything that the exchange answers is printed.
 *
 * <pre>mvn -q compile exec:java -Dexec.args=../fix44.cfg</pre>
 *
 * Ends with 1 unless market data came, and orders were accepted, cancelled and filled. Messages are
 * put together field by field, so that one program speaks all versions.
 */
public final class Sample {
    private static final String INSTRUMENT = "GENA";

    private final SessionSettings settings;
    private final Listener listener;
    private SessionID orders;
    private SessionID data;

    private Sample(SessionSettings settings) throws Exception {
        this.settings = settings;
        this.listener = new Listener(settings);
        for (Iterator<SessionID> ids = settings.sectionIterator(); ids.hasNext();) {
            SessionID id = ids.next();
            switch (settings.getString(id, "Role")) {
                case "orders" -> orders = id;
                case "market-data" -> data = id;
                default -> throw new ConfigError("Role is orders or market-data");
            }
        }
    }

    public static void main(String[] args) throws Exception {
        if (args.length != 1) {
            System.err.println("usage: mvn -q compile exec:java -Dexec.args=../fix44.cfg");
            System.exit(2);
        }
        try {
            new Sample(new SessionSettings(args[0])).run();
            System.exit(0);
        } catch (Failed failed) {
            System.out.println("FAIL: " + failed.getMessage());
            System.exit(1);
        }
    }

    private void run() throws Exception {
        SocketInitiator initiator = new SocketInitiator(listener, new MemoryStoreFactory(), settings,
            new FileLogFactory(settings), new DefaultMessageFactory());
        initiator.start();
        next("logon", listener.logons);
        next("logon", listener.logons);

        subscribe();
        Listener.Market best;
        do {
            best = next("a bid and an offer", listener.markets);
        } while (best.bid() == 0 || best.offer() == 0);
        System.out.printf(Locale.ROOT, "best prices: %.2f / %.2f%n", best.bid(), best.offer());

        // Names of orders are 14 characters at most, and those of open orders must differ.
        String run = Long.toString(System.currentTimeMillis() / 1000 % 1_000_000_000);
        buy("r" + run, 10, best.bid() - 5, TimeInForce.DAY);
        until("r" + run, OrdStatus.NEW);
        // The report of a cancel has the cancel's own ClOrdID, and the order's as OrigClOrdID.
        cancel("c" + run, "r" + run);
        until("c" + run, OrdStatus.CANCELED);
        buy("t" + run, 10, best.offer() + 1, TimeInForce.IMMEDIATE_OR_CANCEL);
        String traded = until("t" + run, OrdStatus.FILLED);
        while (best.trades() == 0) {
            best = next("a trade told by market data", listener.markets);
        }

        initiator.stop();
        if (!listener.faults.isEmpty()) {
            throw new Failed(listener.faults.peek());
        }
        System.out.println("done: " + orders.getBeginString() + ", an order accepted and cancelled,"
            + " another filled with " + traded + " lots");
    }

    /** Waits for something, but not for ever. */
    private <T> T next(String what, BlockingQueue<T> from) throws Exception {
        for (int tenths = 0; tenths < 200; tenths++) {
            T found = from.poll(100, TimeUnit.MILLISECONDS);
            if (!listener.faults.isEmpty()) {
                throw new Failed(listener.faults.peek());
            }
            if (found != null) {
                return found;
            }
        }
        throw new Failed("not within 20 s: " + what);
    }

    /** Waits until an order has this OrdStatus; returns what of it has traded. */
    private String until(String order, char status) throws Exception {
        while (true) {
            Listener.Report report = next("OrdStatus " + status + " of " + order, listener.reports);
            if (!report.order().equals(order)) {
                continue;
            }
            if (report.status() == status) {
                return report.traded();
            }
            if (report.status() == OrdStatus.REJECTED) {
                throw new Failed("the order was refused");
            }
        }
    }

    private void subscribe() throws SessionNotFound {
        Message request = message(MsgType.MARKET_DATA_REQUEST);
        request.setField(new MDReqID("best"));
        request.setField(new SubscriptionRequestType(SubscriptionRequestType.SNAPSHOT_UPDATES));
        request.setField(new MarketDepth(1)); // best prices
        request.setField(new MDUpdateType(MDUpdateType.INCREMENTAL_REFRESH));
        for (char kind : new char[] {MDEntryType.BID, MDEntryType.OFFER, MDEntryType.TRADE}) {
            Group entry = new Group(NoMDEntryTypes.FIELD, MDEntryType.FIELD);
            entry.setField(new MDEntryType(kind));
            request.addGroup(entry);
        }
        Group symbol = new Group(NoRelatedSym.FIELD, Symbol.FIELD);
        symbol.setField(new Symbol(INSTRUMENT));
        request.addGroup(symbol);
        Session.sendToTarget(request, data);
    }

    private void buy(String name, long lots, double price, char life) throws SessionNotFound {
        System.out.printf(Locale.ROOT, "buying %d at %.2f, order %s%n", lots, price, name);
        Message order = message(MsgType.ORDER_SINGLE);
        order.setField(new ClOrdID(name));
        order.setField(new HandlInst('1')); // FIX 4.2 wants it, later versions allow it
        order.setField(new Symbol(INSTRUMENT));
        order.setField(new Side(Side.BUY));
        order.setField(new TransactTime(LocalDateTime.now(ZoneOffset.UTC)));
        order.setField(new OrderQty(lots));
        order.setField(new OrdType(OrdType.LIMIT));
        order.setString(Price.FIELD, String.format(Locale.ROOT, "%.2f", price));
        order.setField(new TimeInForce(life));
        Session.sendToTarget(order, orders);
    }

    private void cancel(String name, String order) throws SessionNotFound {
        Message request = message(MsgType.ORDER_CANCEL_REQUEST);
        request.setField(new OrigClOrdID(order));
        request.setField(new ClOrdID(name));
        request.setField(new Symbol(INSTRUMENT));
        request.setField(new Side(Side.BUY));
        request.setField(new TransactTime(LocalDateTime.now(ZoneOffset.UTC)));
        Session.sendToTarget(request, orders);
    }

    private static Message message(String type) {
        Message message = new Message();
        message.getHeader().setString(MsgType.FIELD, type);
        return message;
    }

    /** Something that the sample must not see. */
    private static final class Failed extends Exception {
        Failed(String what) {
            super(what);
        }
    }
}
