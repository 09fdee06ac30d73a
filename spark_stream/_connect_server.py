"""The program of the embedded server: Spark Connect at a socket in the server's folder, and at no port.

Spark Connect can listen at a port only, without TLS (4.3): its token passes in plain text, and while the server starts
again somebody else can take the port and is shown the token. A socket in a folder of mode 0700 can be opened by the
server's user alone, and the system says so, whoever asks. Spark has no setting for that, but all that it takes is
public: this program starts the service as Spark does, at any port, closes that port before anybody knows it, and has
the same service answer at the socket. In Java, this is

    public static void main(String[] arguments) {
        SparkConnectService$ service = SparkConnectService$.MODULE$;
        service.start(SparkSession.builder().getOrCreate().sparkContext());
        service.server().shutdownNow();
        NettyServerBuilder builder = NettyServerBuilder.forAddress(UnixDomainSocketAddress.of("connect"));
        builder.channelType(NioServerDomainSocketChannel.class);
        builder.bossEventLoopGroup(new NioEventLoopGroup(1));
        builder.workerEventLoopGroup(new NioEventLoopGroup(0));  // as many threads as it thinks fit
        builder.maxInboundMessageSize(128 << 20);
        builder.permitKeepAliveTime(service.GRPC_KEEPALIVE_PERMIT_TIME_SECONDS(), TimeUnit.SECONDS);
        builder.permitKeepAliveWithoutCalls(true);
        builder.addService(new SparkConnectService(false));
        builder.intercept(new PreSharedKeyAuthenticationInterceptor(System.getenv(TOKEN)));
        service.server_$eq(builder.build());
        service.server().start();
        System.err.println(READY);
        service.server().awaitTermination();
    }

(:mod:`spark_stream._class_files` puts the class file together).
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from spark_stream._class_files import (
    ALOAD_1,
    ASTORE_1,
    DUP,
    GETSTATIC,
    ICONST_0,
    ICONST_1,
    INVOKESPECIAL,
    INVOKESTATIC,
    INVOKEVIRTUAL,
    LDC,
    NEW,
    POP,
    RETURN,
    ClassFile,
)

CLASS: Final = "synergy.ConnectServer"
SOCKET: Final = "connect"  # name of the socket, in the folder of the server
VARIABLE: Final = "SPARK_CONNECT_AUTHENTICATE_TOKEN"  # variable with the token that clients have to present
READY: Final = "Spark Connect server started at"  # what Spark's own program says, too, when it accepts sessions
LONGEST: Final = 128 << 20  # greatest size of a message, bytes: that of Spark

_SPARK: Final = "org/apache/spark/sql/"
_SERVICES: Final = f"{_SPARK}connect/service/"
_SERVICE: Final = f"{_SERVICES}SparkConnectService$"
_GRPC: Final = "org/sparkproject/connect/grpc/"
_BUILDER: Final = f"{_GRPC}netty/NettyServerBuilder"
_LOOPS: Final = "io/netty/channel/nio/NioEventLoopGroup"


def write_class(folder: Path) -> None:
    """Write the class file below ``folder``, which is to be on the class path."""
    made = ClassFile(CLASS.replace(".", "/"), "java/lang/Object")
    server, to_builder = f"L{_GRPC}Server;", f"L{_BUILDER};"

    def call(owner: str, name: str, signature: str, how: bytes = INVOKEVIRTUAL) -> bytes:
        return how + made.method(owner, name, signature)

    def new(name: str, signature: str, arguments: bytes) -> bytes:
        return NEW + made.type(name) + DUP + arguments + call(name, "<init>", signature, INVOKESPECIAL)

    def build(name: str, kinds: str, arguments: bytes, result: str = to_builder) -> bytes:
        return ALOAD_1 + arguments + call(_BUILDER, name, f"({kinds}){result}") + POP

    service = GETSTATIC + made.field(_SERVICE, "MODULE$", f"L{_SERVICE};")
    serving = service + call(_SERVICE, "server", f"(){server}")
    seconds = GETSTATIC + made.field("java/util/concurrent/TimeUnit", "SECONDS", "Ljava/util/concurrent/TimeUnit;")
    permitted = service + call(_SERVICE, "GRPC_KEEPALIVE_PERMIT_TIME_SECONDS", "()J") + seconds
    shown = (
        LDC
        + made.string(VARIABLE)
        + call("java/lang/System", "getenv", "(Ljava/lang/String;)Ljava/lang/String;", INVOKESTATIC)
    )
    channel = LDC + made.type("io/netty/channel/socket/nio/NioServerDomainSocketChannel")
    address, at = "java/net/UnixDomainSocketAddress", "Ljava/net/SocketAddress;"
    loops, chained = "Lio/netty/channel/EventLoopGroup;", f"L{_GRPC}ServerBuilder;"
    key = f"{_SERVICES}PreSharedKeyAuthenticationInterceptor"
    code = (
        service
        + call(f"{_SPARK}SparkSession", "builder", f"()L{_SPARK}SparkSession$Builder;", INVOKESTATIC)
        + call(f"{_SPARK}SparkSession$Builder", "getOrCreate", f"()L{_SPARK}SparkSession;")
        + call(f"{_SPARK}SparkSession", "sparkContext", "()Lorg/apache/spark/SparkContext;")
        + call(_SERVICE, "start", "(Lorg/apache/spark/SparkContext;)V")
        + (serving + call(f"{_GRPC}Server", "shutdownNow", f"(){server}") + POP)
        + (LDC + made.string(SOCKET) + call(address, "of", f"(Ljava/lang/String;)L{address};", INVOKESTATIC))
        + (call(_BUILDER, "forAddress", f"({at}){to_builder}", INVOKESTATIC) + ASTORE_1)
        + build("channelType", "Ljava/lang/Class;", channel)
        + build("bossEventLoopGroup", loops, new(_LOOPS, "(I)V", ICONST_1))
        + build("workerEventLoopGroup", loops, new(_LOOPS, "(I)V", ICONST_0))
        + build("maxInboundMessageSize", "I", LDC + made.integer(LONGEST))
        + build("permitKeepAliveTime", "JLjava/util/concurrent/TimeUnit;", permitted)
        + build("permitKeepAliveWithoutCalls", "Z", ICONST_1)
        + build("addService", f"L{_GRPC}BindableService;", new(_SERVICE[:-1], "(Z)V", ICONST_0), chained)
        + build("intercept", f"L{_GRPC}ServerInterceptor;", new(key, "(Ljava/lang/String;)V", shown), chained)
        + (service + ALOAD_1 + call(_BUILDER, "build", f"(){server}") + call(_SERVICE, "server_$eq", f"({server})V"))
        + (serving + call(f"{_GRPC}Server", "start", f"(){server}") + POP)
        + (
            GETSTATIC
            + made.field("java/lang/System", "err", "Ljava/io/PrintStream;")
            + LDC
            + made.string(f"{READY} {SOCKET}")
        )
        + call("java/io/PrintStream", "println", "(Ljava/lang/String;)V")
        + (serving + call(f"{_GRPC}Server", "awaitTermination", "()V") + RETURN)
    )
    made.add("main", "([Ljava/lang/String;)V", code, static=True)
    made.write(folder)
