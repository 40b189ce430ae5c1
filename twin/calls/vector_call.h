// asc_vf_call: a vector function goes to PIPE_V with its arguments by value.
#pragma once
#include <string>
#include <type_traits>

#include "../engine/issue.h"

namespace twin {

template <class T>
constexpr bool is_plain_argument()
{
    return std::is_pointer<T>::value || std::is_arithmetic<T>::value;
}
template <class... Parameters>
constexpr bool takes_plain_arguments(void (*)(Parameters...))
{
    return (is_plain_argument<Parameters>() && ...);
}

// "softmax<true>" out of the compiler's text for asc_vf_call<softmax<true>>.
inline std::string vector_function_name(const std::string& signature)
{
    size_t begin = signature.find("function = ") + std::strlen("function = ");
    if (signature[begin] == '&') ++begin;
    size_t end = signature.find(';', begin);                              // g++
    if (end == std::string::npos) end = signature.find(", Args", begin);  // clang
    return signature.substr(begin, end - begin);
}

struct VectorFunction {
    int id;
    std::string label;

    explicit VectorFunction(const std::string& signature)
    {
        std::string name = vector_function_name(signature);
        id = VectorFunctions::instance().add(name);
        label = "vector function " + name;
    }
};

// The state that vector instructions look at, for the time of one vector function.
class VectorScope {
public:
    VectorScope(int id, uint64_t ctrl) : count_(running.core->group->vector_counts.of(id))
    {
        ++count_.calls;
        running_ctrl = ctrl;
#if QBSA_TWIN_CHECKED
        Group& group = *running.core->group;
        vector_run = {group.memory.at(Memory::kUb, running.core->aiv()), true, group.footprint.get(), id, 0, {}};
        if (group.footprint) group.footprint->begin();
#endif
    }
    ~VectorScope()
    {
        running_ctrl = kCtrlDefault;
#if QBSA_TWIN_CHECKED
        vector_run.active = false;
        for (int op = 0; op < kVectorOps; ++op) count_.ops[op] += vector_run.ops[op];
#endif
    }
    VectorScope(const VectorScope&) = delete;
    VectorScope& operator=(const VectorScope&) = delete;

private:
    VectorCount& count_;
};

}  // namespace twin

template <auto function, typename... Args>
void asc_vf_call(Args&&... args)
{
    static_assert(twin::takes_plain_arguments(function), "a vector function takes pointers and scalars by value only");
    static_assert((twin::is_plain_argument<std::decay_t<Args>>() && ...), "pass pointers and scalars only");
    static const twin::VectorFunction self(__PRETTY_FUNCTION__);
    twin::Call call{self.label.c_str(), PIPE_V, {}};
    twin::Core& core = twin::begin(call);
    const int id = self.id;
    const uint64_t ctrl = core.ctrl;
    twin::issue(core, call, {}, [id, ctrl, args...] {
        twin::VectorScope scope(id, ctrl);
        function(args...);
    });
}
