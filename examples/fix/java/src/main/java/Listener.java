import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;

import quickfix.Application;
import quickfix.ConfigError;
import quickfix.FieldNotFound;
import quickfix.Group;
import quickfix.Message;
import quickfix.SessionID;
import quickfix.SessionSettings;
import quickfix.field.ClOrdID;
import quickfix.field.CumQty;
import quickfix.field.ExecType;
import quickfix.field.LastPx;
import quickfix.field.LastQty;
import quickfix.field.LeavesQty;
import quickfix.field.MDEntryPx;
import quickfix.field.MDEntrySize;
import quickfix.field.MDEntryType;
import quickfix.field.MDUpdateAction;
import quickfix.field.MsgType;
import quickfix.field.NoMDEntries;
import quickfix.field.OrdStatus;
import quickfix.field.OrderID;
import quickfix.field.Password;
import quickfix.field.Text;

/** What QuickFIX/J calls: prints what comes, and puts it into queues for {@link Sample}. */
final class Listener implements Application {
    /** What is to be known of an ExecutionReport. */
    record Report(String order, char status, String traded) {}

    /** What market data told: best prices, and how many trades. */
    record Market(double bid, double offer, int trades) {}

    final BlockingQueue<SessionID> logons = new LinkedBlockingQueue<>();
    final BlockingQueue<Report> reports = new LinkedBlockingQueue<>();
    final BlockingQueue<Market> markets = new LinkedBlockingQueue<>();
    final BlockingQueue<String> faults = new LinkedBlockingQueue<>();
    private final SessionSettings settings;
    private Market market = new Market(0, 0, 0);

    Listener(SessionSettings settings) {
        this.settings = settings;
    }

    @Override
    public void onCreate(SessionID id) {}

    @Override
    public void onLogon(SessionID id) {
        System.out.println("logged on: " + id);
        logons.add(id);
    }

    @Override
    public void onLogout(SessionID id) {
        System.out.println("logged out: " + id);
    }

    /**
     * Adds the password to the Logon. A Reject of ours means that the exchange's message was not what
     * the dictionary allows.
     */
    @Override
    public void toAdmin(Message message, SessionID id) {
        switch (type(message)) {
            case MsgType.LOGON -> message.setField(new Password(password(id)));
            case MsgType.REJECT -> faults.add("we rejected: " + text(message));
            default -> { }
        }
    }

    @Override
    public void toApp(Message message, SessionID id) {
        if (type(message).equals(MsgType.BUSINESS_MESSAGE_REJECT)) {
            faults.add("we rejected: " + text(message));
        }
    }

    @Override
    public void fromAdmin(Message message, SessionID id) {
        switch (type(message)) {
            case MsgType.REJECT -> faults.add("rejected: " + text(message));
            case MsgType.LOGOUT -> {
                if (!text(message).isEmpty()) { // a refused Logon, for example
                    faults.add("logout: " + text(message));
                }
            }
            default -> { }
        }
    }

    @Override
    public void fromApp(Message message, SessionID id) throws FieldNotFound {
        switch (type(message)) {
            case MsgType.EXECUTION_REPORT -> executionReport(message);
            case MsgType.MARKET_DATA_SNAPSHOT_FULL_REFRESH, MsgType.MARKET_DATA_INCREMENTAL_REFRESH ->
                marketData(message);
            case MsgType.ORDER_CANCEL_REJECT, MsgType.BUSINESS_MESSAGE_REJECT,
                MsgType.MARKET_DATA_REQUEST_REJECT -> faults.add("refused: " + text(message));
            default -> { }
        }
    }

    private void executionReport(Message message) throws FieldNotFound {
        Report report = new Report(message.getString(ClOrdID.FIELD),
            message.getChar(OrdStatus.FIELD), message.getString(CumQty.FIELD));
        char execType = message.getChar(ExecType.FIELD);
        StringBuilder line = new StringBuilder("execution report: order ").append(report.order())
            .append(", id ").append(message.getString(OrderID.FIELD))
            .append(", ExecType ").append(execType)
            .append(", OrdStatus ").append(report.status())
            .append(", CumQty ").append(report.traded())
            .append(", LeavesQty ").append(message.getString(LeavesQty.FIELD));
        switch (execType) {
            case 'F', '1', '2' -> line // a trade; FIX 4.2 says 1 or 2
                .append(", traded ").append(message.getString(LastQty.FIELD))
                .append(" at ").append(message.getString(LastPx.FIELD));
            case '8' -> line.append(", refused: ").append(text(message));
            default -> { }
        }
        System.out.println(line);
        reports.add(report);
    }

    /** Keeps the best prices: with MarketDepth 1 whatever is not deleted is the best one. */
    private void marketData(Message message) throws FieldNotFound {
        double bid = market.bid();
        double offer = market.offer();
        int trades = market.trades();
        for (Group entry : message.getGroups(NoMDEntries.FIELD)) {
            char action = entry.isSetField(MDUpdateAction.FIELD) ? entry.getChar(MDUpdateAction.FIELD) : ' ';
            if (action == MDUpdateAction.DELETE || !entry.isSetField(MDEntryPx.FIELD)) {
                continue;
            }
            double price = entry.getDouble(MDEntryPx.FIELD);
            char kind = entry.getChar(MDEntryType.FIELD);
            if (kind == MDEntryType.BID) {
                bid = price;
            } else if (kind == MDEntryType.OFFER) {
                offer = price;
            } else if (action == MDUpdateAction.NEW) { // a snapshot has the last trade of before
                trades++;
                System.out.println("market data: " + entry.getString(MDEntrySize.FIELD) + " traded at "
                    + entry.getString(MDEntryPx.FIELD));
            }
        }
        market = new Market(bid, offer, trades);
        markets.add(market);
    }

    private String password(SessionID id) {
        try {
            return settings.getString(id, "Password");
        } catch (ConfigError missing) {
            throw new IllegalStateException(missing);
        }
    }

    private static String type(Message message) {
        try {
            return message.getHeader().getString(MsgType.FIELD);
        } catch (FieldNotFound impossible) {
            throw new IllegalStateException(impossible);
        }
    }

    private static String text(Message message) {
        try {
            return message.isSetField(Text.FIELD) ? message.getString(Text.FIELD) : "";
        } catch (FieldNotFound impossible) {
            throw new IllegalStateException(impossible);
        }
    }
}
