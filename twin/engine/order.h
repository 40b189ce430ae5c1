// The two seams of the engine: who goes next, and who watches.
#pragma once

namespace twin {

class Core;
class Group;
struct Instruction;
struct ScalarCall;

// The head of one queue.
struct Head {
    Core* core = nullptr;
    int queue = 0;
};

// Chooses among the ready heads of a group; every choice obeys the flags, so every choice must give the same bits.
// One object serves all groups and host threads.
class Order {
public:
    virtual ~Order() = default;
    virtual Head next(Group& group) const = 0;  // no core: nothing is ready
};

// The oldest ready instruction of the first core that has one.
class ProgramOrder final : public Order {
public:
    Head next(Group& group) const override;
};

// Hears of every instruction after it took effect, on the host thread that runs the group.
class Observer {
public:
    virtual ~Observer() = default;
    virtual void executed(const Core& core, const Instruction& instruction) = 0;
    // A call that the scalar unit executed itself, before instruction number core.issued of its program.
    virtual void scalar(const Core& /*core*/, const ScalarCall& /*call*/) {}
};

}  // namespace twin
