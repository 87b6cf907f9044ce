import java.io.PrintWriter;
import java.nio.file.Path;
import java.time.LocalDateTime;
import java.time.ZoneOffset;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.function.BooleanSupplier;

import quickfix.Application;
import quickfix.DefaultMessageFactory;
import quickfix.DoNotSend;
import quickfix.FieldNotFound;
import quickfix.FileLogFactory;
import quickfix.FileStoreFactory;
import quickfix.Group;
import quickfix.Message;
import quickfix.Session;
import quickfix.SessionID;
import quickfix.SessionSettings;
import quickfix.SocketInitiator;
import quickfix.field.ClOrdID;
import quickfix.field.MsgType;
import quickfix.field.OrdType;
import quickfix.field.OrderQty;
import quickfix.field.OrigClOrdID;
import quickfix.field.Password;
import quickfix.field.Price;
import quickfix.field.Side;
import quickfix.field.Symbol;
import quickfix.field.TimeInForce;
import quickfix.field.TransactTime;

/**
 * Two participants on QuickFIX/J. One rests orders, is cut off while the other trades against them,
 * comes back and gets its fills by resend; then its gateway dies, and it comes back at another one.
 * A third gets copies of both, at the gateway that dies and then at another; a fourth subscribes to
 * market data. What all were told is written to a file, to be compared with the engine's log.
 */
public final class Trader {
    private static final String SYMBOL = "GENA";
    private static final double RESTING_PRICE = 150;

    /** One order as its participant was told of it. */
    private static final class Order {
        char status = 'A';
        long cum;
        long leaves;
        long filled;
    }

    /** One participant: it outlives its connections. */
    private static final class Participant implements Application {
        final String compId;
        final String password;
        final Path store;
        final Map<String, Order> orders = new LinkedHashMap<>();
        final Map<String, String> fills = new LinkedHashMap<>();
        final Set<String> twice = new HashSet<>();
        /** Trades of the public feed, by number, as market data told them. */
        final Map<String, String> prints = new LinkedHashMap<>();
        final AtomicInteger repeated = new AtomicInteger();
        final AtomicInteger refreshes = new AtomicInteger();
        volatile boolean on;
        private SocketInitiator initiator;
        private SessionID id;

        Participant(String compId, String password, Path store) {
            this.compId = compId;
            this.password = password;
            this.store = store;
        }

        void connect(String address) throws Exception {
            String[] parts = address.split(":");
            SessionSettings settings = new SessionSettings();
            id = new SessionID("FIX.4.4", compId, "FAIRBELL");
            settings.setString("ConnectionType", "initiator");
            settings.setString("StartTime", "00:00:00");
            settings.setString("EndTime", "00:00:00");
            settings.setString("NonStopSession", "Y");
            settings.setLong("HeartBtInt", 2);
            settings.setLong("ReconnectInterval", 1);
            settings.setString("FileStorePath", store.resolve(compId).toString());
            settings.setString("FileLogPath", store.resolve(compId + "-log").toString());
            settings.setString("UseDataDictionary", "Y");
            settings.setString(id, "BeginString", "FIX.4.4");
            settings.setString(id, "SenderCompID", compId);
            settings.setString(id, "TargetCompID", "FAIRBELL");
            settings.setString(id, "SocketConnectHost", parts[0]);
            settings.setString(id, "SocketConnectPort", parts[1]);
            initiator = new SocketInitiator(this, new FileStoreFactory(settings), settings,
                new FileLogFactory(settings), new DefaultMessageFactory());
            initiator.start();
        }

        /** The line is cut, without a word. */
        void cut() {
            initiator.stop(true);
            on = false;
        }

        /** Says goodbye. */
        void leave() {
            initiator.stop();
        }

        synchronized void order(String name, char side, long lots, double price, char life) {
            orders.put(name, new Order());
            Message order = new Message();
            order.getHeader().setString(MsgType.FIELD, MsgType.ORDER_SINGLE);
            order.setField(new ClOrdID(name));
            order.setField(new Symbol(SYMBOL));
            order.setField(new Side(side));
            order.setField(new TransactTime(LocalDateTime.now(ZoneOffset.UTC)));
            order.setField(new OrderQty(lots));
            order.setField(new OrdType(OrdType.LIMIT));
            order.setField(new Price(price));
            order.setField(new TimeInForce(life));
            send(order);
        }

        synchronized void cancel(String name, String order, char side) {
            Message cancel = new Message();
            cancel.getHeader().setString(MsgType.FIELD, MsgType.ORDER_CANCEL_REQUEST);
            cancel.setField(new OrigClOrdID(order));
            cancel.setField(new ClOrdID(name));
            cancel.setField(new Symbol(SYMBOL));
            cancel.setField(new Side(side));
            cancel.setField(new TransactTime(LocalDateTime.now(ZoneOffset.UTC)));
            send(cancel);
        }

        synchronized void subscribe() {
            Message request = new Message();
            request.getHeader().setString(MsgType.FIELD, MsgType.MARKET_DATA_REQUEST);
            request.setString(262, "book");
            request.setChar(263, '1');
            request.setInt(264, 0);
            request.setInt(265, 1);
            for (char kind = '0'; kind <= '2'; kind++) {
                Group entry = new Group(267, 269);
                entry.setChar(269, kind);
                request.addGroup(entry);
            }
            Group symbol = new Group(146, 55);
            symbol.setField(new Symbol(SYMBOL));
            request.addGroup(symbol);
            send(request);
        }

        private void refresh(Message message) throws FieldNotFound {
            refreshes.incrementAndGet();
            for (Group entry : message.getGroups(268)) {
                if (entry.isSetField(279) && entry.getChar(269) == '2') {
                    String print = entry.getString(270) + "," + (long) entry.getDouble(271);
                    if (prints.put(entry.getString(278), print) != null) {
                        twice.add(entry.getString(278));
                    }
                }
            }
        }

        private void send(Message message) {
            Session session = Session.lookupSession(id);
            if (session == null || !session.send(message)) {
                throw new IllegalStateException(compId + ": a message was not sent");
            }
        }

        synchronized int fillCount() {
            return fills.size();
        }

        synchronized boolean has(String name, char status) {
            Order order = orders.get(name);
            return order != null && order.status == status;
        }

        @Override
        public synchronized void fromApp(Message message, SessionID session) throws FieldNotFound {
            if (message.getHeader().isSetField(43) && message.getHeader().getBoolean(43)) {
                repeated.incrementAndGet();
            }
            String type = message.getHeader().getString(35);
            if (type.equals("W") || type.equals("X")) {
                refresh(message);
                return;
            }
            if (!type.equals("8")) {
                throw new IllegalStateException(compId + ": " + message);
            }
            String exec = message.getString(17);
            boolean cancelled = message.isSetField(41);
            String name = message.getString(cancelled ? 41 : 11);
            Order order = orders.computeIfAbsent(name, unknown -> new Order());
            order.status = message.getChar(39);
            order.cum = (long) message.getDouble(14);
            order.leaves = (long) message.getDouble(151);
            if (message.getChar(150) == 'F') {
                long lots = (long) message.getDouble(32);
                String fill = message.getString(31) + "," + lots + "," + message.getString(54);
                if (fills.put(exec, fill) != null) {
                    twice.add(exec);
                }
                order.filled += lots;
            }
        }

        @Override
        public void toAdmin(Message message, SessionID session) {
            try {
                if (message.getHeader().getString(35).equals("A")) {
                    message.setField(new Password(password));
                }
            } catch (FieldNotFound impossible) {
                throw new IllegalStateException(impossible);
            }
        }

        @Override
        public void onLogon(SessionID session) {
            on = true;
        }

        @Override
        public void onLogout(SessionID session) {
            on = false;
        }

        @Override
        public void onCreate(SessionID session) {}

        @Override
        public void fromAdmin(Message message, SessionID session) {}

        @Override
        public void toApp(Message message, SessionID session) throws DoNotSend {}

        synchronized void write(PrintWriter out) {
            orders.forEach((name, order) -> out.println("order," + compId + "," + name + ","
                + order.status + "," + order.cum + "," + order.leaves));
            fills.forEach((exec, fill) -> out.println("fill," + compId + "," + exec + "," + fill));
            prints.forEach((id, print) -> out.println("print," + compId + "," + id + "," + print));
        }

        synchronized void inItself() {
            orders.forEach((name, order) -> expect(order.cum == order.filled,
                compId + " " + name + ": CumQty " + order.cum + ", fills " + order.filled));
            expect(twice.isEmpty(), compId + ": told twice: " + twice);
        }
    }

    private static void expect(boolean holds, String what) {
        if (!holds) {
            System.out.println("FAIL: " + what);
            System.exit(1);
        }
    }

    private static void await(String what, int seconds, BooleanSupplier holds) throws Exception {
        for (int tenths = 0; tenths < seconds * 10; tenths++) {
            if (holds.getAsBoolean()) {
                return;
            }
            Thread.sleep(100);
        }
        expect(false, "not within " + seconds + " s: " + what);
    }

    /** So many trades of one lot against what rests. */
    private static void trade(Participant with, String name, int count) throws Exception {
        int before = with.fillCount();
        for (int n = 0; n < count; n++) {
            with.order(name + n, '2', 1, RESTING_PRICE, '0');
        }
        await(name + ": " + count + " fills", 20, () -> with.fillCount() >= before + count);
    }

    /** Arguments: addresses of gateways 1, 2 and 3, password, a folder. */
    public static void main(String[] args) throws Exception {
        Path folder = Path.of(args[4]);
        Participant rests = new Participant("GUEST", args[3], folder);
        Participant hits = new Participant("OTHER", args[3], folder);
        Participant copies = new Participant("COPY", args[3], folder);
        Participant data = new Participant("DATA", args[3], folder);
        rests.connect(args[0]);
        hits.connect(args[1]);
        copies.connect(args[0]);
        data.connect(args[1]);
        await("all log on", 20, () -> rests.on && hits.on && copies.on && data.on);
        data.subscribe();
        await("a snapshot", 20, () -> data.refreshes.get() > 0);
        // Its numbers go on, those of a market-data session begin anew: it is told, and is in at once.
        data.cut();
        int refreshes = data.refreshes.get();
        data.connect(args[1]);
        await("market data once more", 20, () -> data.on);
        data.subscribe();
        await("another snapshot", 20, () -> data.refreshes.get() > refreshes);
        System.out.println("ok: two QuickFIX/J 2.3.1 clients are logged on, at gateways 1 and 2");

        rests.order("sweep", '1', 4_000_000_000L, RESTING_PRICE, '3');
        rests.order("rest1", '1', 100, RESTING_PRICE, '0');
        rests.order("rest2", '1', 1_000, RESTING_PRICE, '0');
        rests.order("rest3", '1', 50, RESTING_PRICE - 1, '0');
        await("orders rest", 20, () -> rests.has("rest3", '0'));
        System.out.println("ok: traded with the book, " + rests.fillCount() + " fills");

        int before = rests.fillCount();
        rests.cut();
        trade(hits, "cut", 120);
        expect(rests.fillCount() == before, "nothing is heard on a cut line");
        rests.connect(args[0]);
        await("fills of the absence", 20, () -> rests.fillCount() >= before + 120);
        int repeated = rests.repeated.get();
        expect(repeated >= 120, "the fills came with PossDupFlag, not " + repeated);
        System.out.println("ok: cut off during 120 fills, back, got them by resend");

        System.out.println("waiting for the end of gateway 1");
        await("gateway 1 dies", 90, () -> !rests.on);
        rests.cut();
        copies.cut();
        int known = rests.fillCount();
        trade(hits, "dead", 110);
        rests.connect(args[2]);
        copies.connect(args[2]);
        await("fills of the gateway's death", 20, () -> rests.fillCount() >= known + 110);
        expect(rests.repeated.get() >= repeated + 110, "those came with PossDupFlag, too");
        System.out.println("ok: its gateway killed, 110 fills, got them by resend at gateway 3");

        rests.cancel("cancel3", "rest3", '1');
        await("a cancel", 20, () -> rests.has("rest3", '4'));
        rests.order("rest4", '1', 5, RESTING_PRICE - 2, '0');
        await("a new order", 20, () -> rests.has("rest4", '0'));
        trade(hits, "after", 10);
        await("fills at gateway 3", 20, () -> rests.fillCount() >= known + 120);
        System.out.println("ok: cancels, orders and trades on at gateway 3");
        rests.inItself();
        hits.inItself();
        await("copies of all fills", 20,
            () -> copies.fillCount() == rests.fillCount() + hits.fillCount());
        await("all trades as market data", 20, () -> data.prints.size() >= hits.fillCount());
        copies.inItself();
        System.out.println("ok: a drop copy of both, at gateway 1 and then at 3, and market data");
        try (PrintWriter out = new PrintWriter(folder.resolve("ledger.csv").toFile())) {
            rests.write(out);
            hits.write(out);
            copies.write(out);
            data.write(out);
        }
        rests.leave();
        hits.leave();
        copies.leave();
        data.leave();
        System.exit(0);
    }
}
