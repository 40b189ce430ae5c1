// NPU arch 3510 (Ascend 950): sizes, alignments and limits that kernel and twin rely on.
// Source: the architecture page of NPU arch 3510 and the call pages of the AscendC basic API.
#pragma once
#include <stdint.h>

namespace qbsa {
namespace arch {

static constexpr uint32_t kAivPerAic = 2;

static constexpr uint32_t kUbBytes = 248 * 1024;  // of 256 KiB: 8 KiB are the compiler's
static constexpr uint32_t kL1Bytes = 512 * 1024;
static constexpr uint32_t kL0aBytes = 64 * 1024;
static constexpr uint32_t kL0bBytes = 64 * 1024;
static constexpr uint32_t kL0cBytes = 256 * 1024;

static constexpr uint32_t kDataBlockBytes = 32;  // C0: unit of UB and L1 addresses and of NZ rows
static constexpr uint32_t kFractalBytes = 512;   // 16 rows of one data block
static constexpr uint32_t kFractalRows = 16;
static constexpr uint32_t kL0Align = 512;
static constexpr uint32_t kL0cAlign = 1024;  // Mmad destination

static constexpr uint32_t kVectorBytes = 256;  // one vector register
static constexpr uint32_t kLanes = kVectorBytes / sizeof(float);
static constexpr uint32_t kVectorRegisters = 32;
static constexpr uint32_t kMaskRegisters = 8;

static constexpr uint32_t kEventIds = 8;        // per ordered pipe pair
static constexpr uint32_t kUserEventIds = 6;    // 6 is reserved, 7 belongs to TPipe
static constexpr uint32_t kCrossFlagIds = 11;   // mode 4, per direction
static constexpr uint32_t kCrossFlagAiv1 = 16;  // the AIC's offset for flags of AIV1
static constexpr uint32_t kCrossFlagMax = 15;   // a flag counts 0..15

static constexpr uint32_t kNd2NzMaxPitch = 65535;  // srcDValue, srcNdMatrixStride, in elements

}  // namespace arch
}  // namespace qbsa
