// Bytes of every data movement and of the cube, against loops written from the manual's formulas.
#include "check.h"

// There is no way from L1 to GM on the device: tests carry L1 or L0 through LoadData, Mmad with an identity, Fixpipe
// and UB, or look at the group's memory from a program that has drained its queues.
static std::vector<uint8_t> peek(twin::Memory memory, uint32_t bytes, int aiv = 0)
{
    const uint8_t* data = twin::running.core->group->memory.at(memory, aiv).data;
    return std::vector<uint8_t>(data, data + bytes);
}

static void test_nd2nz()
{
    const uint32_t rows = 5, columns = 70, pitch = 100, matrices = 3;
    auto source = random_e4m3(matrices * 1000, 1);
    std::vector<uint8_t> l1;
    Nd2NzParams p(matrices, rows, columns, 600, pitch, 24, 2, 512);
    CHECK(run_aic([&] {
              DataCopy(LocalTensor<fp8_e4m3fn_t>(TPosition::A1, 64, 8192), gm(source), p);
              PipeBarrier<PIPE_ALL>();
              l1 = peek(twin::Memory::kL1, 16384);
          }) == "");
    std::vector<uint8_t> expected(16384, twin::kPoison);
    for (uint32_t nd = 0; nd < matrices; ++nd) {
        for (uint32_t r = 0; r < rows; ++r) {
            for (uint32_t c = 0; c < 96; ++c) {
                expected[64 + nd * 512 + r * 64 + c / 32 * 24 * 32 + c % 32] =
                    c < columns ? source[nd * 600 + r * pitch + c].bits : 0;
            }
        }
    }
    CHECK(l1 == expected);
}

// Two matrices that take the even and the odd rows of one page, so that row 2 i + o of the page lands in row 4 i + o.
static void test_nd2nz_interleaving()
{
    auto page = random_e4m3(128 * 128, 2);
    std::vector<uint8_t> l1;
    Nd2NzParams p(2, 64, 128, 128, 256, 256, 4, 32);
    CHECK(run_aic([&] {
              DataCopy(LocalTensor<fp8_e4m3fn_t>(TPosition::B1, 0, 32768), gm(page), p);
              PipeBarrier<PIPE_ALL>();
              l1 = peek(twin::Memory::kL1, 32768);
          }) == "");
    uint32_t wrong = 0;
    for (uint32_t i = 0; i < 64; ++i) {
        for (uint32_t o = 0; o < 2; ++o) {
            for (uint32_t c = 0; c < 128; ++c) {
                wrong += l1[c / 32 * 8192 + (4 * i + o) * 32 + c % 32] != page[(2 * i + o) * 128 + c].bits;
            }
        }
    }
    CHECK(wrong == 0);
    CHECK(l1[2 * 32] == twin::kPoison);
}

static void load_l1(std::vector<uint8_t>& bytes)
{
    DataCopy(LocalTensor<uint8_t>(TPosition::A1, 0, bytes.size()), gm(bytes), uint32_t(bytes.size()));
    SetFlag<HardEvent::MTE2_MTE1>(0);
    WaitFlag<HardEvent::MTE2_MTE1>(0);
}

static void test_load_data()
{
    auto source = random_bytes(65536, 3);
    std::vector<uint8_t> l0a;
    LoadData2DParamsV2 p(1, 2, 3, 4, 8, 5, false, 0);
    CHECK(run_aic([&] {
              load_l1(source);
              LoadData(LocalTensor<uint8_t>(TPosition::A2, 1024, 16384), LocalTensor<uint8_t>(TPosition::A1, 32, 60000),
                       p);
              PipeBarrier<PIPE_ALL>();
              l0a = peek(twin::Memory::kL0A, 32768);
          }) == "");
    std::vector<uint8_t> expected(32768, twin::kPoison);
    for (uint32_t i = 0; i < 3; ++i) {
        for (uint32_t j = 0; j < 4; ++j) {
            for (uint32_t b = 0; b < 512; ++b) {
                expected[1024 + (j * 5 + i) * 512 + b] = source[32 + ((2 + j) * 8 + 1 + i) * 512 + b];
            }
        }
    }
    CHECK(l0a == expected);
}

template <typename T>
static void test_load_data_transposed()
{
    constexpr uint32_t kSize = sizeof(T), kColumns = 32 / kSize;  // of a fractal
    auto source = random_bytes(65536, 4);
    std::vector<uint8_t> l0b;
    LoadData2DParamsV2 p(2, 1, 4, 3, 16, 7, true, 0);
    CHECK(run_aic([&] {
              load_l1(source);
              LoadData(LocalTensor<T>(TPosition::B2, 512, 16384 / kSize),
                       LocalTensor<T>(TPosition::B1, 0, 65536 / kSize), p);
              PipeBarrier<PIPE_ALL>();
              l0b = peek(twin::Memory::kL0B, 16384);
          }) == "");
    std::vector<uint8_t> expected(16384, twin::kPoison);
    for (uint32_t k = 0; k < 64; ++k) {                // rows of the source, depth of B
        for (uint32_t n = 0; n < 3 * kColumns; ++n) {  // columns
            uint32_t from = ((1 + n / kColumns) * 16 + 2 + k / 16) * 512 + k % 16 * 32 + n % kColumns * kSize;
            uint32_t to = 512 + (k / kColumns * 7 + n / 16) * 512 + n % 16 * 32 + k % kColumns * kSize;
            std::memcpy(&expected[to], &source[from], kSize);
        }
    }
    CHECK(l0b == expected);
}

static void test_fill()
{
    std::vector<uint8_t> l1;
    CHECK(run_aic([&] {
              Fill(LocalTensor<uint16_t>(TPosition::A1, 96, 1000), InitConstValueParams<uint16_t>(3, 2, 1, 0x1234));
              PipeBarrier<PIPE_ALL>();
              l1 = peek(twin::Memory::kL1, 512);
          }) == "");
    std::vector<uint8_t> expected(512, twin::kPoison);
    for (uint32_t i = 0; i < 3 * 64; ++i) expected[96 + i / 64 * 96 + i % 64] = i % 2 ? 0x12 : 0x34;
    CHECK(l1 == expected);
}

static void test_block_copies()
{
    auto source = random_bytes(4096, 5);
    std::vector<uint8_t> ub, l1, back(4096, 0), back_expected(4096, 0);
    CHECK(run_aiv([&] {
              LocalTensor<uint8_t> tile(TPosition::VECIN, 32, 1024);
              DataCopy(tile, gm(source), DataCopyParams(3, 2, 1, 2));
              SetFlag<HardEvent::MTE2_MTE3>(0);
              WaitFlag<HardEvent::MTE2_MTE3>(0);
              DataCopy(LocalTensor<uint8_t>(TPosition::A1, 0, 1024), tile, DataCopyParams(3, 2, 2, 0));
              DataCopy(gm(back)[7], tile, DataCopyParams(3, 2, 2, 3));
              DataCopy(gm(back)[1000], tile, 64);
              PipeBarrier<PIPE_ALL>();
              ub = peek(twin::Memory::kUb, 1024);
              l1 = peek(twin::Memory::kL1, 256);
          }) == "");
    std::vector<uint8_t> ub_expected(1024, twin::kPoison), l1_expected(256, twin::kPoison);
    for (uint32_t i = 0; i < 192; ++i) {
        uint8_t byte = source[i / 64 * 96 + i % 64];
        ub_expected[32 + i / 64 * 128 + i % 64] = byte;
        l1_expected[i] = byte;
        back_expected[7 + i / 64 * 160 + i % 64] = byte;
        if (i < 64) back_expected[1000 + i] = byte;
    }
    CHECK(ub == ub_expected);
    CHECK(l1 == l1_expected);
    CHECK(back == back_expected);
}

static void test_pad_in()
{
    std::vector<uint16_t> source(256);
    for (uint32_t i = 0; i < 256; ++i) source[i] = uint16_t(1000 + i);
    std::vector<uint8_t> ub;
    CHECK(run_aiv([&] {
              LocalTensor<uint16_t> tile(TPosition::VECIN, 0, 1024);
              DataCopyPad(tile, gm(source), DataCopyExtParams(2, 10, 6, 1, 0),
                          DataCopyPadExtParams<uint16_t>(true, 2, 1, 7));
              DataCopyPad(tile[256], gm(source), DataCopyExtParams(1, 10, 0, 0, 0),
                          DataCopyPadExtParams<uint16_t>(false, 0, 0, 0));
              DataCopyPad<uint16_t, PaddingMode::Compact>(tile[512], gm(source), DataCopyExtParams(5, 2, 14, 0, 0),
                                                          DataCopyPadExtParams<uint16_t>(true, 0, 0, 9));
              PipeBarrier<PIPE_ALL>();
              ub = peek(twin::Memory::kUb, 2048);
          }) == "");
    auto at = [&](uint32_t element) { return ub[2 * element] | ub[2 * element + 1] << 8; };
    for (uint32_t block = 0; block < 2; ++block) {  // normal: 2 + 5 + 1 elements, filled up to 16
        for (uint32_t i = 0; i < 16; ++i) {
            CHECK(at(block * 32 + i) == (i >= 2 && i < 7 ? int(1000 + block * 8 + i - 2) : 7));
        }
    }
    for (uint32_t i = 0; i < 16; ++i) CHECK(at(256 + i) == (i < 5 ? int(1000 + i) : 1000));   // the first one repeated
    for (uint32_t i = 0; i < 16; ++i) CHECK(at(512 + i) == (i < 5 ? int(1000 + i * 8) : 9));  // compact
    CHECK(at(16) == 0xFFFF);
    CHECK(at(512 + 16) == 0xFFFF);
}

static void test_pad_out()
{
    auto source = random_bytes(256, 6);
    std::vector<uint8_t> out(256, 0), compact(256, 0);
    CHECK(run_aiv([&] {
              LocalTensor<uint8_t> tile(TPosition::VECIN, 0, 256);
              DataCopy(tile, gm(source), 256);
              SetFlag<HardEvent::MTE2_MTE3>(0);
              WaitFlag<HardEvent::MTE2_MTE3>(0);
              DataCopyPad(gm(out)[3], tile, DataCopyExtParams(3, 33, 1, 5, 0));
              DataCopyPad<uint8_t, PaddingMode::Compact>(gm(compact), tile, DataCopyExtParams(3, 33, 0, 5, 0));
          }) == "");
    std::vector<uint8_t> expected(256, 0), compact_expected(256, 0);
    for (uint32_t i = 0; i < 99; ++i) {
        expected[3 + i / 33 * 38 + i % 33] = source[i / 33 * 96 + i % 33];
        compact_expected[i / 33 * 38 + i % 33] = source[i];
    }
    CHECK(out == expected);
    CHECK(compact == compact_expected);
}

// Rows [rows][depth] -> fractals at the start of L0A or L0B.
template <typename T>
static void load_operand(TPosition l1, TPosition l0, uint32_t at, std::vector<T>& x, uint16_t rows, uint16_t depth)
{
    const uint16_t fractal_rows = uint16_t((rows + 15) / 16);
    const uint16_t fractal_columns = uint16_t((depth * sizeof(T) + 31) / 32);
    LocalTensor<T> tile(l1, at, uint32_t(fractal_rows * fractal_columns * 512 / sizeof(T)));
    DataCopy(tile, gm(x), Nd2NzParams(1, rows, depth, 0, depth, uint16_t(fractal_rows * 16), 1, 0));
    SetFlag<HardEvent::MTE2_MTE1>(0);
    WaitFlag<HardEvent::MTE2_MTE1>(0);
    LoadData(LocalTensor<T>(l0, 0, tile.GetSize()), tile,
             LoadData2DParamsV2(0, 0, fractal_rows, fractal_columns, fractal_rows, fractal_rows, false, 0));
    SetFlag<HardEvent::MTE1_MTE2>(0);
    WaitFlag<HardEvent::MTE1_MTE2>(0);
}

constexpr FixpipeConfig kNzToUb = {CO2Layout::NZ, true};
constexpr FixpipeConfig kRowsToUb = {CO2Layout::ROW_MAJOR, true};

template <typename T>
static float exact_sum(const std::vector<T>& a, const std::vector<T>& b, uint32_t i, uint32_t j, uint32_t k,
                       float start)
{
    for (uint32_t q = 0; q < k; ++q) {
        float product = twin::decode(a[i * k + q]) * twin::decode(b[j * k + q]);
        start = start + product;
    }
    return start;
}

static bool same_bits(float a, float b) { return std::memcmp(&a, &b, sizeof a) == 0; }

// Codes of normal values with exponents near the middle of the type's range.
template <typename T>
static std::vector<T> random_codes(size_t count, uint32_t seed)
{
    if constexpr (std::is_same<T, fp8_e4m3fn_t>::value) {
        return random_e4m3(count, seed);
    } else {
        constexpr bool kHalf = std::is_same<T, half>::value;
        constexpr uint16_t kRandomBits = kHalf ? 0x8FFF : 0x83FF, kMiddle = kHalf ? 0x3000 : 0x3C00;
        const auto bytes = random_bytes(2 * count, seed);
        std::vector<T> codes(count);
        for (size_t i = 0; i < count; ++i) {
            const uint16_t random = uint16_t(bytes[2 * i] | bytes[2 * i + 1] << 8);
            codes[i].bits = uint16_t((random & kRandomBits) | kMiddle);
        }
        return codes;
    }
}

template <typename T = fp8_e4m3fn_t>
static void test_mmad(uint16_t m, uint16_t n, uint16_t k)
{
    auto a = random_codes<T>(m * k, m), b = random_codes<T>(n * k, n + 1000);
    std::vector<float> c;
    CHECK(run_aic([&] {
              load_operand(TPosition::A1, TPosition::A2, 0, a, m, k);
              load_operand(TPosition::B1, TPosition::B2, 65536, b, n, k);
              SetFlag<HardEvent::MTE1_M>(0);
              WaitFlag<HardEvent::MTE1_M>(0);
              constexpr uint32_t kCount = 65536 / sizeof(T);
              LocalTensor<T> l0a(TPosition::A2, 0, kCount), l0b(TPosition::B2, 0, kCount);
              LocalTensor<float> l0c(TPosition::CO1, 0, 65536);
              MmadParams p(m, n, k, 0, false, true);
              p.disableGemv = true;
              Mmad(l0c, l0a, l0b, p);
              p.cmatrixInitVal = false;
              Mmad(l0c, l0a, l0b, p);
              PipeBarrier<PIPE_ALL>();
              auto bytes = peek(twin::Memory::kL0C, 262144);
              c.resize(65536);
              std::memcpy(c.data(), bytes.data(), bytes.size());
          }) == "");
    const uint32_t slab = (m + 15) / 16 * 256;
    uint32_t wrong = 0, touched = 0;
    for (uint32_t j = 0; j < n; ++j) {
        for (uint32_t i = 0; i < m; ++i) {
            float& got = c[j / 16 * slab + i * 16 + j % 16];
            wrong += !same_bits(got, exact_sum(a, b, i, j, k, exact_sum(a, b, i, j, k, 0.0f)));
            std::memset(&got, twin::kPoison, sizeof got);
        }
    }
    for (float x : c) touched += x == x;
    CHECK(wrong == 0);
    CHECK(touched == 0);  // nothing outside of m x n
}

// Every code but NaN, times one.
static void test_mmad_codes()
{
    const uint16_t m = 16, n = 32, k = 32;
    std::vector<fp8_e4m3fn_t> a(m * k), identity(n * k, {0});
    for (uint32_t i = 0; i < a.size(); ++i) a[i].bits = uint8_t((i & 0x7F) == twin::kE4m3Nan ? 0 : i);
    for (uint32_t i = 0; i < n; ++i) identity[i * k + i].bits = 0x38;
    std::vector<float> c(m * n);
    CHECK(run_aic([&] {
              load_operand(TPosition::A1, TPosition::A2, 0, a, m, k);
              load_operand(TPosition::B1, TPosition::B2, 65536, identity, n, k);
              SetFlag<HardEvent::MTE1_M>(0);
              WaitFlag<HardEvent::MTE1_M>(0);
              Mmad(LocalTensor<float>(TPosition::CO1, 0, 512), LocalTensor<fp8_e4m3fn_t>(TPosition::A2, 0, 512),
                   LocalTensor<fp8_e4m3fn_t>(TPosition::B2, 0, 1024), MmadParams(m, n, k, 0, false, true));
              PipeBarrier<PIPE_ALL>();
              auto bytes = peek(twin::Memory::kL0C, 2048);
              std::memcpy(c.data(), bytes.data(), bytes.size());
          }) == "");
    uint32_t wrong = 0;
    for (uint32_t i = 0; i < m; ++i) {
        for (uint32_t j = 0; j < n; ++j) wrong += c[j / 16 * 256 + i * 16 + j % 16] != twin::decode(a[i * k + j]);
    }
    CHECK(wrong == 0);
}

static void test_mmad_nan()
{
    std::vector<fp8_e4m3fn_t> a(16 * 32, {0x38}), b(16 * 32, {0});
    a[5].bits = 0xFF;
    float hit = 0, clean = 1;
    CHECK(run_aic([&] {
              load_operand(TPosition::A1, TPosition::A2, 0, a, 16, 32);
              load_operand(TPosition::B1, TPosition::B2, 65536, b, 16, 32);
              SetFlag<HardEvent::MTE1_M>(0);
              WaitFlag<HardEvent::MTE1_M>(0);
              Mmad(LocalTensor<float>(TPosition::CO1, 0, 256), LocalTensor<fp8_e4m3fn_t>(TPosition::A2, 0, 512),
                   LocalTensor<fp8_e4m3fn_t>(TPosition::B2, 0, 512), MmadParams(16, 16, 32, 0, false, true));
              PipeBarrier<PIPE_ALL>();
              auto bytes = peek(twin::Memory::kL0C, 1024);
              std::memcpy(&hit, &bytes[0], 4);
              std::memcpy(&clean, &bytes[64], 4);
          }) == "");
    CHECK(hit != hit);
    CHECK(clean == 0.0f);
}

// The product of m x 32 with 48 x 32, moved out in every way.
static void test_fixpipe()
{
    const uint16_t m = 24, n = 48, k = 32;
    auto a = random_e4m3(m * k, 7), b = random_e4m3(n * k, 8);
    std::vector<uint8_t> ub[2];
    CHECK(run_aic([&] {
              load_operand(TPosition::A1, TPosition::A2, 0, a, m, k);
              load_operand(TPosition::B1, TPosition::B2, 65536, b, n, k);
              SetFlag<HardEvent::MTE1_M>(0);
              WaitFlag<HardEvent::MTE1_M>(0);
              LocalTensor<float> l0c(TPosition::CO1, 1024, 32 * 48);
              Mmad(l0c, LocalTensor<fp8_e4m3fn_t>(TPosition::A2, 0, 1024),
                   LocalTensor<fp8_e4m3fn_t>(TPosition::B2, 0, 1536), MmadParams(m, n, k, 0, false, true));
              SetFlag<HardEvent::M_FIX>(0);
              WaitFlag<HardEvent::M_FIX>(0);
              FixpipeParamsArch3510<CO2Layout::NZ> nz(n, m, 32, 20 * 16);
              nz.dualDstCtl = 1;
              Fixpipe<float, float, kNzToUb>(LocalTensor<float>(TPosition::VECIN, 0, 2048), l0c, nz);
              nz.dualDstCtl = 0;
              nz.subBlockId = true;
              nz.dstStride = 24 * 16;
              Fixpipe<float, float, kNzToUb>(LocalTensor<float>(TPosition::VECIN, 8192, 2048), l0c, nz);
              FixpipeParamsArch3510<CO2Layout::ROW_MAJOR> rows(40, m, 32, 64);
              Fixpipe<float, float, kRowsToUb>(LocalTensor<float>(TPosition::VECIN, 16384, 2048), l0c, rows);
              rows.dualDstCtl = 1;
              Fixpipe<float, float, kRowsToUb>(LocalTensor<float>(TPosition::VECIN, 32768, 2048), l0c, rows);
              PipeBarrier<PIPE_ALL>();
              for (int aiv = 0; aiv < 2; ++aiv) ub[aiv] = peek(twin::Memory::kUb, 65536, aiv);
          }) == "");
    uint32_t wrong = 0;
    auto compare = [&](int aiv, uint32_t byte, uint32_t element, float expected) {
        float got;
        std::memcpy(&got, &ub[aiv][byte + element * 4], 4);
        wrong += !same_bits(got, expected);
    };
    for (uint32_t i = 0; i < m; ++i) {
        for (uint32_t j = 0; j < n; ++j) {
            const float c = exact_sum(a, b, i, j, k, 0.0f);
            const int half = i >= 12;
            compare(half, 0, j / 16 * 320 + (i - half * 12) * 16 + j % 16, c);
            compare(1, 8192, j / 16 * 384 + i * 16 + j % 16, c);
            if (j >= 40) continue;
            compare(0, 16384, i * 64 + j, c);
            compare(half, 32768, (i - half * 12) * 64 + j, c);
        }
    }
    CHECK(wrong == 0);
    CHECK(ub[0][12 * 64] == twin::kPoison);         // rows 12.. of slab 0 belong to AIV1
    CHECK(ub[0][8192] == twin::kPoison);            // went to AIV1 alone
    CHECK(ub[0][16384 + 40 * 4] == twin::kPoison);  // column 40
}

static void test_tensors()
{
    std::vector<int32_t> table = {10, 20, 30, 40};
    CHECK(run([&] {
              if (ASCEND_IS_AIV && GetSubBlockIdx() == 1) {
                  GlobalTensor<int32_t> t = gm(table);
                  CHECK(t[1].GetValue(2) == 40);
                  CHECK(t.GetPhyAddr(2) == &table[2]);
                  t.SetValue(3, 41);
                  LocalTensor<float> x(TPosition::VECCALC, 256, 64);
                  CHECK(x.GetSize() == 64);
                  CHECK(x[16].GetSize() == 48);
                  CHECK(x[16].ReinterpretCast<uint8_t>().GetSize() == 192);
                  CHECK(x[16].GetPhyAddr() == x.GetPhyAddr(16));
                  CHECK(x[16].GetPhyAddr() - x.GetPhyAddr() == 64);
                  CHECK(GetBlockIdx() == 1 && GetBlockNum() == 1 && GetTaskRatio() == 2);
              }
          }) == "");
    CHECK(table[3] == 41);
}

int main()
{
    test_nd2nz();
    test_nd2nz_interleaving();
    test_load_data();
    test_load_data_transposed<uint8_t>();
    test_load_data_transposed<half>();
    test_fill();
    test_block_copies();
    test_pad_in();
    test_pad_out();
    test_mmad(128, 256, 128);
    test_mmad(128, 128, 256);
    test_mmad(37, 45, 77);
    test_mmad(37, 45, 78);
    test_mmad(1, 16, 32);
    test_mmad<half>(37, 45, 77);
    test_mmad<bfloat16_t>(64, 50, 128);
    test_mmad_codes();
    test_mmad_nan();
    test_fixpipe();
    test_tensors();
    return finish();
}
