// HardEvent: flags between two pipes of one core.
#pragma once
#include "types.h"

// X(source, destination): in the order of the device headers, whose values these enumerators share.
#define TWIN_HARD_EVENTS(X) \
    X(MTE2, MTE1)           \
    X(MTE1, MTE2)           \
    X(MTE1, M)              \
    X(M, MTE1)              \
    X(MTE2, V)              \
    X(V, MTE2)              \
    X(MTE3, V)              \
    X(V, MTE3)              \
    X(M, V)                 \
    X(V, M)                 \
    X(V, V)                 \
    X(MTE3, MTE1)           \
    X(MTE1, MTE3)           \
    X(MTE1, V)              \
    X(MTE2, M)              \
    X(M, MTE2)              \
    X(V, MTE1)              \
    X(M, FIX)               \
    X(FIX, M)               \
    X(MTE3, MTE2)           \
    X(MTE2, MTE3)           \
    X(S, V)                 \
    X(V, S)                 \
    X(S, MTE2)              \
    X(MTE2, S)              \
    X(S, MTE3)              \
    X(MTE3, S)              \
    X(MTE2, FIX)            \
    X(FIX, MTE2)            \
    X(FIX, S)               \
    X(M, S)                 \
    X(FIX, MTE3)            \
    X(MTE1, FIX)            \
    X(FIX, MTE1)            \
    X(FIX, FIX)

namespace AscendC {
enum class HardEvent : uint8_t {
#define X(source, destination) source##_##destination,
    TWIN_HARD_EVENTS(X)
#undef X
        MAX
};
}  // namespace AscendC

namespace twin {

struct EventPipes {
    pipe_t source;
    pipe_t destination;
    const char* name;
};

constexpr EventPipes kEventPipes[] = {
#define X(source, destination) {PIPE_##source, PIPE_##destination, #source "_" #destination},
    TWIN_HARD_EVENTS(X)
#undef X
};
constexpr int kEvents = sizeof(kEventPipes) / sizeof(kEventPipes[0]);

}  // namespace twin
