import exchange.core2.collections.objpool.ObjectsPool;
import exchange.core2.core.common.CoreSymbolSpecification;
import exchange.core2.core.common.MatcherEventType;
import exchange.core2.core.common.MatcherTradeEvent;
import exchange.core2.core.common.OrderAction;
import exchange.core2.core.common.OrderType;
import exchange.core2.core.common.SymbolType;
import exchange.core2.core.common.cmd.CommandResultCode;
import exchange.core2.core.common.cmd.OrderCommand;
import exchange.core2.core.common.cmd.OrderCommandType;
import exchange.core2.core.common.config.LoggingConfiguration;
import exchange.core2.core.orderbook.IOrderBook;
import exchange.core2.core.orderbook.OrderBookDirectImpl;
import exchange.core2.core.orderbook.OrderBookEventsHelper;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.channels.FileChannel;
import java.nio.file.Path;
import java.util.HashMap;

/**
 * Plays a tape through exchange-core's order book alone: no disruptor, no risk engine, one command
 * object reused. A whole play comes first to warm up the compiler; the second one, in a new book, is
 * timed after its prefill. Prints "RESULT nanoseconds commands trades volume hash".
 */
final class PlayTape {
    private static final long GOLDEN = 0x9E3779B97F4A7C15L;

    private final long[] ids;
    private final int[] prices;
    private final int[] quantities;
    private final byte[] kinds;
    private final byte[] sides;
    private final int prefill;

    private long trades;
    private long volume;
    private long hash;

    private PlayTape(ByteBuffer tape) {
        prefill = (int) tape.getLong();
        int length = (int) tape.getLong();
        ids = new long[length];
        prices = new int[length];
        quantities = new int[length];
        kinds = new byte[length];
        sides = new byte[length];
        for (int i = 0; i < length; i++) {
            ids[i] = tape.getLong();
            prices[i] = (int) tape.getLong();
            quantities[i] = tape.getInt();
            kinds[i] = tape.get();
            sides[i] = tape.get();
            tape.getShort();
        }
    }

    public static void main(String[] arguments) throws IOException {
        PlayTape player;
        try (FileChannel file = FileChannel.open(Path.of(arguments[0]))) {
            ByteBuffer tape = file.map(FileChannel.MapMode.READ_ONLY, 0, file.size());
            player = new PlayTape(tape.order(ByteOrder.LITTLE_ENDIAN));
        }
        player.play();
        long nanoseconds = player.play();
        System.out.printf("RESULT %d %d %d %d %016x%n", nanoseconds,
                player.ids.length - player.prefill, player.trades, player.volume, player.hash);
    }

    private long play() {
        trades = 0;
        volume = 0;
        hash = 0;
        CoreSymbolSpecification symbol = CoreSymbolSpecification.builder()
                .symbolId(1).type(SymbolType.CURRENCY_EXCHANGE_PAIR).baseCurrency(1)
                .quoteCurrency(2).baseScaleK(1).quoteScaleK(1).build();
        HashMap<Integer, Integer> sizes = new HashMap<>();
        sizes.put(ObjectsPool.DIRECT_ORDER, 1 << 20);
        sizes.put(ObjectsPool.DIRECT_BUCKET, 1 << 16);
        sizes.put(ObjectsPool.ART_NODE_4, 1 << 18);
        sizes.put(ObjectsPool.ART_NODE_16, 1 << 18);
        sizes.put(ObjectsPool.ART_NODE_48, 1 << 16);
        sizes.put(ObjectsPool.ART_NODE_256, 1 << 14);
        IOrderBook book = new OrderBookDirectImpl(symbol, new ObjectsPool(sizes),
                OrderBookEventsHelper.NON_POOLED_EVENTS_HELPER,
                LoggingConfiguration.builder().loggingLevels(java.util.EnumSet.noneOf(
                        LoggingConfiguration.LoggingLevel.class)).build());
        OrderCommand command = new OrderCommand();
        command.uid = 1;
        command.symbol = 1;
        long start = 0;
        for (int i = 0; i < ids.length; i++) {
            if (i == prefill) {
                start = System.nanoTime();
            }
            apply(book, command, i);
        }
        return System.nanoTime() - start;
    }

    private void apply(IOrderBook book, OrderCommand command, int i) {
        if (kinds[i] >= 2) {
            command.command = OrderCommandType.CANCEL_ORDER;
            command.orderId = ids[i];
            run(book, command);
        }
        if (kinds[i] != 3) {
            command.command = OrderCommandType.PLACE_ORDER;
            command.orderId = ids[i];
            command.price = prices[i];
            command.reserveBidPrice = prices[i];
            command.size = quantities[i];
            command.action = sides[i] == 0 ? OrderAction.BID : OrderAction.ASK;
            command.orderType = kinds[i] == 1 ? OrderType.IOC : OrderType.GTC;
            run(book, command);
        }
    }

    private void run(IOrderBook book, OrderCommand command) {
        command.matcherEvent = null;
        command.resultCode = CommandResultCode.VALID_FOR_MATCHING_ENGINE;
        IOrderBook.processCommand(book, command);
        MatcherTradeEvent event = command.matcherEvent;
        for (; event != null; event = event.nextEvent) {
            if (event.eventType == MatcherEventType.TRADE) {
                trades++;
                volume += event.size;
                mix(command.orderId);
                mix(event.matchedOrderId);
                mix(event.price);
                mix(event.size);
            }
        }
    }

    private void mix(long word) {
        hash = (Long.rotateLeft(hash, 5) ^ word) * GOLDEN;
    }
}
