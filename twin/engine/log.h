// The effect log: a line for each instruction when it takes effect, made for grep:
//
//   kernel=0 group=0 core=AIC pipe=MTE2 seq=42 call=DataCopy_Nd2Nz at=pages.h:25 (goes on in the same line)
//       write=L1[0x8000,0xc000)key[0] read=GM[0x0,0x4000)key
//   kernel=0 group=0 core=AIC pipe=MTE2 seq=43 call=SetFlag at=cube.h:133 set=MTE2_MTE1:2 name=kKeyLoaded[0]
//
// seq is the place in the core's program. GM addresses count from the start of their tensor. Ranges of strided accesses
// are from the first to the last byte; those of vector functions are whole data blocks and known in the checked
// variant.
#pragma once
#include <cstdio>
#include <mutex>
#include <string>

#include "core.h"
#include "footprint.h"
#include "gm_ranges.h"
#include "names.h"

namespace twin {

// Appends to a file; shared by all groups.
class EffectLog {
public:
    explicit EffectLog(const char* path) : file_(std::fopen(path, "a"))
    {
        if (!file_) throw Error(format("the effect log %s cannot be written", path));
    }
    ~EffectLog() { std::fclose(file_); }
    EffectLog(const EffectLog&) = delete;
    EffectLog& operator=(const EffectLog&) = delete;

    void buffers(const Names& names)
    {
        for (const BufferName& b : names.buffers) {
            write(format("buffer=%s memory=%s begin=%#x slot_bytes=%#x slots=%u", b.name, name(b.memory), b.begin,
                         b.slot_bytes, b.slots));
        }
    }

    void instruction(const Core& core, const Instruction& i, const Footprint* footprint, const Names& names,
                     const GmRanges& gm)
    {
        std::string text = head(core, i.call, i.sequence);
        for (int n = 0; n < i.accesses; ++n) text += access(core, i.access[n], names, gm);
        if (i.kind == Kind::kRun && i.call.pipe == PIPE_V && footprint) text += vector(*footprint, names);
        write(text + flag(core, i, names));
    }

    void barrier_of_all(const Core& core, const Call& call, uint64_t sequence) { write(head(core, call, sequence)); }

    // A parameter that the instruction makes use of, once for each call.
    void stride(const Call& call, const char* parameter)
    {
        write(format("stride=%s at=%s", parameter, to_string(call.where).c_str()));
    }

private:
    static std::string head(const Core& core, const Call& call, uint64_t sequence)
    {
        std::string who = core.describe();
        who.resize(who.find(' '));
        std::string what = call.name;
        for (char& c : what) c = c == ' ' ? '_' : c;
        return format("%s core=%s pipe=%s seq=%llu call=%s at=%s", where(core).c_str(), who.c_str(), name(call.pipe),
                      static_cast<unsigned long long>(sequence), what.c_str(),
                      call.where.file ? to_string(call.where).c_str() : "-");
    }
    static std::string where(const Core& core);

    static std::string range(const char* use, Memory memory, uint64_t begin, uint64_t end)
    {
        return format(" %s=%s[%#llx,%#llx)", use, name(memory), static_cast<unsigned long long>(begin),
                      static_cast<unsigned long long>(end));
    }

    static std::string access(const Core& core, const Access& a, const Names& names, const GmRanges& gm)
    {
        const char* use = a.write ? "write" : "read";
        uint64_t begin = a.hull_begin(), end = a.hull_end();
        if (a.region.memory == Memory::kGm) {
            const GmRange* tensor = gm.find(begin);
            const uint64_t base = tensor ? tensor->begin : 0;
            return range(use, Memory::kGm, begin - base, end - base) + (tensor ? tensor->name : "");
        }
        std::string text = range(use, a.region.memory, begin, end) + names.buffer_name(a.region.memory, begin);
        const bool other_core = a.region.memory == Memory::kUb && a.region.aiv != kRunningAiv;
        return other_core && core.is_aic() ? text + "@AIV" + std::to_string(a.region.aiv) : text;
    }

    static std::string vector(const Footprint& footprint, const Names& names)
    {
        std::string text;
        for (bool write : {false, true}) {
            footprint.for_each_run(write ? Footprint::kWritten : Footprint::kRead, [&](uint64_t begin, uint64_t end) {
                text +=
                    range(write ? "write" : "read", Memory::kUb, begin, end) + names.buffer_name(Memory::kUb, begin);
            });
        }
        return text;
    }

    static std::string flag(const Core& core, const Instruction& i, const Names& names)
    {
        const int id = i.flag;
        const char* event = i.kind == Kind::kSetFlag || i.kind == Kind::kWaitFlag ? kEventPipes[i.event].name : "";
        switch (i.kind) {
            case Kind::kSetFlag:
            case Kind::kWaitFlag:
                return format(" %s=%s:%d name=%s", i.kind == Kind::kSetFlag ? "set" : "wait", event, id,
                              names.event_name(core.is_aic(), i.event, id).c_str());
            case Kind::kCrossSet:  // id as the receiver counts it
                return format(" cross-set=%d to=%d name=%s", id, i.target_core, names.cross_name(id).c_str());
            case Kind::kCrossWait:
                return format(" cross-wait=%d name=%s", id, names.cross_name(id).c_str());
            default:
                return "";
        }
    }

    void write(const std::string& line)
    {
        std::lock_guard<std::mutex> lock(mutex_);
        std::fputs((line + "\n").c_str(), file_);
    }

    std::FILE* file_;
    std::mutex mutex_;
};

}  // namespace twin
