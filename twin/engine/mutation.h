// Mistakes that a test puts into a running kernel. An instruction is named by its core (0: AIC, 1 + k: AIV k) and its
// sequence number in that core's program, as the effect log shows them (log.h). One edit a line:
//
//   drop CORE SEQUENCE
//   pipe CORE SEQUENCE PIPE                          queued on another pipe
//   add CORE SEQUENCE KIND PIPE EVENT|- ID           before that instruction; KIND: set, wait, cross-set, cross-wait
//   fence INDEX FUNCTION                             drops LocalMemBar number INDEX of a vector function
//   halve MEMORY BEGIN SLOT_BYTES                    half the distance between slots of the buffer that begins there
//   stride FILE:LINE PARAMETER                       one more
#pragma once
#include <map>
#include <sstream>
#include <string>
#include <tuple>
#include <vector>

#include "access.h"
#include "instruction.h"

namespace twin {

class Mutation {
public:
    struct Flag {
        Kind kind;
        pipe_t pipe;
        int event;  // of kSetFlag and kWaitFlag
        int id;
    };
    struct Edit {
        bool drop = false;
        bool moves = false;
        pipe_t pipe = PIPE_S;
        std::vector<Flag> added;
    };

    // Error for a line that is none of the above.
    explicit Mutation(const std::string& text)
    {
        std::istringstream lines(text);
        for (std::string line; std::getline(lines, line);) {
            std::istringstream words(line);
            if (!read(words)) throw Error("no edit of a mutation: " + line);
        }
    }

    // Null: the instruction stays as it is.
    const Edit* at(int kernel, int core, uint64_t sequence) const
    {
        const auto found = edits_.find({kernel, core, sequence});
        return found == edits_.end() ? nullptr : &found->second;
    }

    bool drops_fence(const std::string& function, int index) const { return function == function_ && index == fence_; }

    uint64_t offset(const Region& tensor, uint64_t bytes) const
    {
        if (slot_bytes_ == 0 || tensor.begin != begin_ || memory_ != name(tensor.memory)) return bytes;
        return bytes - bytes / slot_bytes_ * (slot_bytes_ / 2);
    }

    bool changes_stride(const Call& call, const char* parameter) const
    {
        return parameter == parameter_ && to_string(call.where) == stride_at_;
    }

private:
    bool read(std::istringstream& words)
    {
        std::string what;
        words >> what;
        if (what == "fence") return bool(std::getline(words >> fence_ >> std::ws, function_));
        if (what == "halve") return bool(words >> memory_ >> std::hex >> begin_ >> slot_bytes_);
        if (what == "stride") return bool(words >> stride_at_ >> parameter_);
        int kernel, core;
        uint64_t sequence;
        words >> kernel >> core >> sequence;
        Edit& edit = edits_[{kernel, core, sequence}];
        if (what == "drop") return edit.drop = bool(words);
        if (what == "pipe") return edit.moves = read_pipe(words, edit.pipe);
        return what == "add" && read_flag(words, edit);
    }

    static bool read_pipe(std::istringstream& words, pipe_t& pipe)
    {
        std::string wanted;
        words >> wanted;
        for (pipe_t p : {PIPE_V, PIPE_M, PIPE_MTE1, PIPE_MTE2, PIPE_MTE3, PIPE_FIX}) {
            if (wanted == name(p)) return pipe = p, true;
        }
        return false;
    }

    static bool read_flag(std::istringstream& words, Edit& edit)
    {
        std::string kind, event;
        Flag flag{};
        words >> kind;
        const bool pipe_known = read_pipe(words, flag.pipe);
        words >> event >> flag.id;
        flag.kind = kind == "set"         ? Kind::kSetFlag
                    : kind == "wait"      ? Kind::kWaitFlag
                    : kind == "cross-set" ? Kind::kCrossSet
                                          : Kind::kCrossWait;
        while (flag.event < kEvents && event != kEventPipes[flag.event].name) ++flag.event;
        edit.added.push_back(flag);
        return bool(words) && pipe_known;
    }

    std::map<std::tuple<int, int, uint64_t>, Edit> edits_;
    std::string function_;
    int fence_ = -1;
    std::string memory_;
    uint64_t begin_ = 0;
    uint64_t slot_bytes_ = 0;
    std::string stride_at_;
    std::string parameter_;
};

}  // namespace twin
