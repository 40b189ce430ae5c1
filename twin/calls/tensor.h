// LocalTensor and GlobalTensor: addresses with a type.
#pragma once
#include <type_traits>

#include "../engine/issue.h"

namespace AscendC {

enum class TPosition : uint8_t {
    GM,
    A1,
    A2,
    B1,
    B2,
    C1,
    C2,
    CO1,
    CO2,
    VECIN,
    VECOUT,
    VECCALC,
    LCM = VECCALC,
    SPM,
    SHM = SPM,
    TSCM,
    C2PIPE2GM,
    C2PIPE2LOCAL,
    MAX,
};

enum class CacheMode { CACHE_MODE_DISABLE = 0, CACHE_MODE_NORMAL = 1, CACHE_MODE_LAST = 2, CACHE_MODE_PERSISTENT = 4 };
enum class CacheRwMode { READ = 1, WRITE = 2, RW = 3 };

}  // namespace AscendC

namespace twin {

inline Memory memory_of(AscendC::TPosition position)
{
    using AscendC::TPosition;
    switch (position) {
        case TPosition::A1:
        case TPosition::B1:
        case TPosition::C1:
        case TPosition::TSCM:
            return Memory::kL1;
        case TPosition::A2:
            return Memory::kL0A;
        case TPosition::B2:
            return Memory::kL0B;
        case TPosition::CO1:
            return Memory::kL0C;
        case TPosition::VECIN:
        case TPosition::VECOUT:
        case TPosition::VECCALC:
            return Memory::kUb;
        default:
            fail("the twin has no memory for TPosition %d", static_cast<int>(position));
    }
}

}  // namespace twin

namespace AscendC {

template <typename T>
class LocalTensor {
public:
    using PrimType = T;

    LocalTensor() : region_{twin::Memory::kUb, twin::kRunningAiv, 0, 0} {}

    // addr: in bytes from the start of the memory; tileSize: in elements.
    LocalTensor(TPosition pos, uint32_t addr, uint32_t tileSize, twin::Where where = twin::Where::here())
    {
        twin::begin({"LocalTensor", PIPE_S, where});
        region_ = {twin::memory_of(pos), twin::kRunningAiv, addr, addr + uint64_t(tileSize) * sizeof(T)};
        if (region_.end > twin::capacity(region_.memory)) {
            twin::fail("[%#x, %#llx) exceeds %s of %u bytes", addr, static_cast<unsigned long long>(region_.end),
                       twin::name(region_.memory), twin::capacity(region_.memory));
        }
    }

    LocalTensor operator[](const uint32_t offset) const
    {
        if (offset > GetSize()) {
            twin::begin({"LocalTensor::operator[]", PIPE_S, {}});
            twin::fail("offset %u exceeds %s tensor of %u elements", offset, twin::name(region_.memory), GetSize());
        }
        LocalTensor tail = *this;
        tail.region_.begin += twin::mutated_offset(region_, uint64_t(offset) * sizeof(T));
        return tail;
    }

    template <typename U>
    LocalTensor<U> ReinterpretCast() const
    {
        LocalTensor<U> other;
        other.set_region(region_);
        return other;
    }

    // Of UB an address that vector functions can follow, of other memories the offset from their start.
    uint64_t GetPhyAddr() const
    {
        if (region_.memory != twin::Memory::kUb) return region_.begin;
        twin::Core& core = twin::begin({"LocalTensor::GetPhyAddr", PIPE_S, {}});
        return reinterpret_cast<uint64_t>(twin::bytes_at(core, region_, region_.begin).data);
    }
    uint64_t GetPhyAddr(const uint32_t offset) const { return (*this)[offset].GetPhyAddr(); }

    uint32_t GetSize() const { return uint32_t((region_.end - region_.begin) / sizeof(T)); }

    const twin::Region& region() const { return region_; }
    void set_region(const twin::Region& region) { region_ = region; }

private:
    twin::Region region_;
};

template <typename T>
class GlobalTensor {
public:
    using PrimType = T;

    void SetGlobalBuffer(__gm__ T* buffer, uint64_t bufferSize)
    {
        (void)bufferSize;  // the launch knows the real extents
        SetGlobalBuffer(buffer);
    }
    void SetGlobalBuffer(__gm__ T* buffer) { address_ = buffer; }

    const __gm__ T* GetPhyAddr() const { return address_; }
    __gm__ T* GetPhyAddr(const uint64_t offset) const { return address_ + offset; }

    T GetValue(const uint64_t offset, twin::Where where = twin::Where::here()) const
    {
        check_scalar({"GlobalTensor::GetValue", PIPE_S, where}, offset, false);
        return address_[offset];
    }
    void SetValue(const uint64_t offset, T value, twin::Where where = twin::Where::here())
    {
        check_scalar({"GlobalTensor::SetValue", PIPE_S, where}, offset, true);
        address_[offset] = value;
    }

    GlobalTensor operator[](const uint64_t offset) const
    {
        GlobalTensor tail = *this;
        tail.address_ += offset;
        return tail;
    }

    template <CacheRwMode rwMode = CacheRwMode::RW>
    void SetL2CacheHint(CacheMode)
    {
    }  // no effect on results

    twin::Region region() const
    {
        return {twin::Memory::kGm, twin::kRunningAiv, reinterpret_cast<uint64_t>(address_), UINT64_MAX};
    }

private:
    void check_scalar(const twin::Call& call, uint64_t offset, bool write) const
    {
        twin::Core& core = twin::begin(call);
        uint64_t at = reinterpret_cast<uint64_t>(address_ + offset);
        if (at % sizeof(T) != 0)
            twin::fail("address %#llx is not a multiple of %zu", (unsigned long long)at, sizeof(T));
        twin::check_gm(core, "the call", at, at + sizeof(T), write);
        if (core.group->race) core.group->race->scalar_access(core, call, at, at + sizeof(T), write);
        twin::tell_scalar(core, {call, twin::Kind::kRun});
    }

    __gm__ T* address_ = nullptr;
};

}  // namespace AscendC
