import static com.paritytrading.juncture.nasdaq.itch50.ITCH50.*;

import com.paritytrading.juncture.nasdaq.itch50.ITCH50Listener;
import com.paritytrading.juncture.nasdaq.itch50.ITCH50Parser;
import com.paritytrading.nassau.moldudp64.MoldUDP64Client;
import com.paritytrading.nassau.moldudp64.MoldUDP64ClientState;
import com.paritytrading.nassau.moldudp64.MoldUDP64ClientStatusListener;
import java.io.IOException;
import java.io.PrintWriter;
import java.net.InetSocketAddress;
import java.net.StandardSocketOptions;
import java.nio.ByteBuffer;
import java.nio.channels.DatagramChannel;
import java.nio.charset.StandardCharsets;
import java.util.HashMap;
import java.util.Map;
import java.util.TreeMap;

/**
 * The live feed: MoldUDP64 by Nassau, ITCH by Juncture, books by plain maps. It begins at message 1
 * whenever it comes, loses some packets on purpose, and asks the retransmission server for all that.
 */
final class Feed implements ITCH50Listener, MoldUDP64ClientStatusListener {
    /** One packet in so many is thrown away, while none is missing: Nassau asks once a second. */
    private static final int LOSE_EVERY = 211;

    record Added(String symbol, byte side, long shares, long price) {}

    record Replaced(long old, long shares, long price) {}

    record Traded(long shares, long price) {}

    private static final class Order {
        final int locate;
        final byte side;
        final long price;
        long shares;

        Order(int locate, byte side, long price, long shares) {
            this.locate = locate;
            this.side = side;
            this.price = price;
            this.shares = shares;
        }
    }

    /** Prices of one side with their shares, best first. */
    private record Book(TreeMap<Long, Long> bids, TreeMap<Long, Long> offers) {
        TreeMap<Long, Long> side(byte side) {
            return side == 'B' ? bids : offers;
        }
    }

    final Map<Long, Added> added = new HashMap<>();
    final Map<Long, Replaced> replaced = new HashMap<>();
    final Map<Long, Long> canceled = new HashMap<>();
    final Map<Long, Boolean> deleted = new HashMap<>();
    final Map<Long, Traded> traded = new HashMap<>();
    final Map<Character, Long> types = new TreeMap<>();
    long messages;
    long lost;
    long requests;
    long gaps;
    boolean ended;

    private final Map<Integer, String> symbols = new HashMap<>();
    private final Map<Integer, Book> books = new HashMap<>();
    private final Map<Long, Order> orders = new HashMap<>();
    private final Map<Integer, String> quoted = new HashMap<>();
    private final DatagramChannel channel;
    private final MoldUDP64Client client;
    private final PrintWriter quotes;
    private final ByteBuffer bin = ByteBuffer.allocateDirect(65_536);
    private long packets;
    private boolean whole;

    Feed(int port, InetSocketAddress retransmission, PrintWriter quotes) throws IOException {
        this.quotes = quotes;
        channel = DatagramChannel.open();
        channel.setOption(StandardSocketOptions.SO_RCVBUF, 4 << 20);
        channel.bind(new InetSocketAddress("127.0.0.1", port));
        channel.configureBlocking(false);
        ITCH50Parser parser = new ITCH50Parser(this);
        client = new MoldUDP64Client(channel, retransmission, buffer -> {
            messages++;
            int length = buffer.remaining();
            byte type = buffer.get(buffer.position());
            types.merge((char) type, 1L, Long::sum);
            parser.message(buffer);
            // Juncture 1.0.0 takes the eight bytes of a cross's shares for four.
            if (buffer.remaining() != (type == 'Q' ? 4 : 0)) {
                throw new IOException("message " + messages + " has " + buffer.remaining() + " of "
                    + length + " bytes too many");
            }
        }, this);
    }

    /** Takes what has come; whether anything has. */
    boolean receive() throws IOException {
        if (whole && packets % LOSE_EVERY == LOSE_EVERY - 1) {
            bin.clear();
            if (channel.receive(bin) == null) {
                return false;
            }
            packets++;
            lost++;
            return true;
        }
        boolean taken = client.receive();
        packets += taken ? 1 : 0;
        return taken;
    }

    private void add(int locate, long reference, byte side, long shares, long price) {
        if (!symbols.containsKey(locate) || shares <= 0 || (side != 'B' && side != 'S')) {
            throw new IllegalStateException("message " + messages + ": no proper order");
        }
        if (orders.put(reference, new Order(locate, side, price, shares)) != null) {
            throw new IllegalStateException("message " + messages + ": order added twice");
        }
        books.get(locate).side(side).merge(price, shares, Long::sum);
        quote(locate);
    }

    private Order reduce(long reference, long shares) {
        Order order = orders.get(reference);
        if (order == null || shares <= 0 || shares > order.shares) {
            throw new IllegalStateException("message " + messages + ": order " + reference);
        }
        order.shares -= shares;
        if (order.shares == 0) {
            orders.remove(reference);
        }
        books.get(order.locate).side(order.side)
            .computeIfPresent(order.price, (price, open) -> open == shares ? null : open - shares);
        quote(order.locate);
        return order;
    }

    /** Writes the best prices after this message, when they are others. */
    private void quote(int locate) {
        Book book = books.get(locate);
        String best = level(book.bids) + "," + level(book.offers);
        if (!best.equals(quoted.put(locate, best))) {
            quotes.println(messages + "," + symbols.get(locate) + "," + best);
        }
    }

    private static String level(TreeMap<Long, Long> side) {
        return side.isEmpty() ? "," : side.firstKey() + "," + side.firstEntry().getValue();
    }

    private static String text(long symbol) {
        byte[] bytes = ByteBuffer.allocate(8).putLong(symbol).array();
        return new String(bytes, StandardCharsets.US_ASCII).trim();
    }

    private void trade(long match, long shares, long price) {
        if (traded.put(match, new Traded(shares, price)) != null) {
            throw new IllegalStateException("message " + messages + ": trade told twice");
        }
    }

    @Override
    public void stockDirectory(StockDirectory message) {
        symbols.put(message.stockLocate, text(message.stock));
        books.computeIfAbsent(message.stockLocate, locate ->
            new Book(new TreeMap<>((a, b) -> Long.compare(b, a)), new TreeMap<>()));
    }

    @Override
    public void addOrder(AddOrder message) {
        long reference = message.orderReferenceNumber;
        added.put(reference, new Added(text(message.stock), message.buySellIndicator,
            message.shares, message.price));
        add(message.stockLocate, reference, message.buySellIndicator, message.shares, message.price);
    }

    @Override
    public void addOrderMPID(AddOrderMPID message) {
        add(message.stockLocate, message.orderReferenceNumber, message.buySellIndicator,
            message.shares, message.price);
    }

    @Override
    public void orderExecuted(OrderExecuted message) {
        Order order = reduce(message.orderReferenceNumber, message.executedShares);
        trade(message.matchNumber, message.executedShares, order.price);
    }

    @Override
    public void orderExecutedWithPrice(OrderExecutedWithPrice message) {
        reduce(message.orderReferenceNumber, message.executedShares);
        if (message.printable == 'Y') {
            trade(message.matchNumber, message.executedShares, message.executionPrice);
        }
    }

    @Override
    public void orderCancel(OrderCancel message) {
        reduce(message.orderReferenceNumber, message.canceledShares);
        canceled.merge(message.orderReferenceNumber, message.canceledShares, Long::sum);
    }

    @Override
    public void orderDelete(OrderDelete message) {
        Order order = orders.get(message.orderReferenceNumber);
        reduce(message.orderReferenceNumber, order == null ? 0 : order.shares);
        deleted.put(message.orderReferenceNumber, true);
    }

    @Override
    public void orderReplace(OrderReplace message) {
        Order old = orders.get(message.originalOrderReferenceNumber);
        reduce(message.originalOrderReferenceNumber, old == null ? 0 : old.shares);
        add(old.locate, message.newOrderReferenceNumber, old.side, message.shares, message.price);
        replaced.put(message.newOrderReferenceNumber, new Replaced(
            message.originalOrderReferenceNumber, message.shares, message.price));
    }

    @Override
    public void trade(Trade message) {
        trade(message.matchNumber, message.shares, message.price);
    }

    @Override
    public void request(MoldUDP64Client session, long sequenceNumber, int count) {
        requests++;
    }

    @Override
    public void state(MoldUDP64Client session, MoldUDP64ClientState next) {
        whole = next == MoldUDP64ClientState.SYNCHRONIZED;
        if (next == MoldUDP64ClientState.GAP_FILL) {
            gaps++;
        }
    }

    @Override
    public void endOfSession(MoldUDP64Client session) {
        ended = true;
    }

    @Override
    public void downstream(MoldUDP64Client session, long sequenceNumber, int count) {}

    @Override
    public void systemEvent(SystemEvent message) {}

    @Override
    public void stockTradingAction(StockTradingAction message) {}

    @Override
    public void regSHORestriction(RegSHORestriction message) {}

    @Override
    public void marketParticipantPosition(MarketParticipantPosition message) {}

    @Override
    public void mwcbDeclineLevel(MWCBDeclineLevel message) {}

    @Override
    public void mwcbStatus(MWCBStatus message) {}

    @Override
    public void ipoQuotingPeriodUpdate(IPOQuotingPeriodUpdate message) {}

    @Override
    public void luldAuctionCollar(LULDAuctionCollar message) {}

    @Override
    public void operationalHalt(OperationalHalt message) {}

    @Override
    public void crossTrade(CrossTrade message) {}

    @Override
    public void brokenTrade(BrokenTrade message) {}

    @Override
    public void noii(NOII message) {}

    @Override
    public void rpii(RPII message) {}
}
