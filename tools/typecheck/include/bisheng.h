// What the bisheng compiler itself gives to device code of NPU arch 3510, as far as a type check needs it: keywords,
// types, enums of the global namespace and intrinsics. Read before kernel_operator.h, by clang only.
#pragma once
#include <stddef.h>
#include <stdint.h>
#include <type_traits>

// Keywords. Execution spaces say nothing about types; memories become address spaces that clang keeps apart.
#define __global__
#define __aicore__
#define __host__
#define __host_aicore__
#define __aicpu__
#define __mix__(cubes, vectors)
#define __cube__
#define __vector__
#define __schedmode__(mode)
#define __simd_vf__
#define __simd_callee__
#define __VEC_SCOPE__
#define __inout_pipe__(pipe)
#define __in_pipe__(pipe)
#define __out_pipe__(pipe)
#define __sync_alias__
#define __sync_noalias__
#define __check_sync_alias__

#define __gm__ __attribute__((address_space(1)))
#define __ubuf__ __attribute__((address_space(2)))
#define __cbuf__ __attribute__((address_space(3)))
#define __ca__ __attribute__((address_space(4)))
#define __cb__ __attribute__((address_space(5)))
#define __cc__ __attribute__((address_space(6)))
#define __fbuf__ __attribute__((address_space(7)))
#define __biasbuf__ __attribute__((address_space(8)))
#define __ssbuf__ __attribute__((address_space(9)))

// Element types. Scoped enums are distinct, can be read from any memory and convert to nothing by themselves.
typedef _Float16 half;
typedef __bf16 bfloat16_t;
enum class float8_e4m3_t : uint8_t {};
enum class float8_e5m2_t : uint8_t {};
enum class float8_e8m0_t : uint8_t {};
enum class float4_e2m1x2_t : uint8_t {};
enum class float4_e1m2x2_t : uint8_t {};
enum class hifloat8_t : uint8_t {};
enum class hifloat4x2_t : uint8_t {};
enum class int4x2_t : uint8_t {};

// Registers.
#define QBSA_REGISTER(name) \
    struct name {           \
        char bytes[256];    \
    };
QBSA_REGISTER(vector_s8)
QBSA_REGISTER(vector_u8)
QBSA_REGISTER(vector_s16)
QBSA_REGISTER(vector_u16)
QBSA_REGISTER(vector_f16)
QBSA_REGISTER(vector_bf16)
QBSA_REGISTER(vector_s32)
QBSA_REGISTER(vector_u32)
QBSA_REGISTER(vector_f32)
QBSA_REGISTER(vector_s64)
QBSA_REGISTER(vector_u64)
QBSA_REGISTER(vector_hif8)
QBSA_REGISTER(vector_f8e4m3)
QBSA_REGISTER(vector_f8e5m2)
QBSA_REGISTER(vector_f8e8m0)
QBSA_REGISTER(vector_f4e2m1x2)
QBSA_REGISTER(vector_f4e1m2x2)
QBSA_REGISTER(vector_s4x2)
#undef QBSA_REGISTER
struct vector_bool {
    char bits[32];
};
struct vector_align {
    char bytes[32];
};
struct vector_address {
    uint32_t offset;
};

// Enums. The headers cast numbers of their own to most of them, so only the names that they spell stand here; the
// values mean nothing, and the underlying type is named where a cast number may be any.
enum pipe_t { PIPE_S, PIPE_V, PIPE_M, PIPE_MTE1, PIPE_MTE2, PIPE_MTE3, PIPE_ALL, PIPE_FIX };
enum event_t { EVENT_ID0, EVENT_ID1, EVENT_ID2, EVENT_ID3, EVENT_ID4, EVENT_ID5, EVENT_ID6, EVENT_ID7 };
enum mem_t { L1, L0A, L0B, L0C, UB, BT, FB };
enum mem_bar_t { VV_ALL, VS_ALL, VST_VST, VST_VLD, VST_ST, VST_LD, VLD_VST, VLD_ST, SV_ALL, ST_VST, ST_VLD, LD_VST };
enum mem_dsb_t { DSB_ALL, DSB_DDR, DSB_UB, DSB_SEQ };
enum cache_line_t { SINGLE_CACHE_LINE, ENTIRE_DATA_CACHE };
enum dcci_dst_t { CACHELINE_ALL, CACHELINE_UB, CACHELINE_OUT, CACHELINE_ATOMIC };
enum addr_cal_mode_t { inc, dec };
enum ub_addr8_t { VA0, VA1, VA2, VA3, VA4, VA5, VA6, VA7 };
enum atomic_type_t : int {};
enum atomic_op_t : int {};
enum Dist : int {};
enum DistVST : int {};
enum Post : int { POST_UPDATE };
enum Part : int { PART_EVEN, PART_ODD };
enum Part_T : int {};
enum HiloPart : int { LOWER, HIGHER };
enum RoundingSaturation : int { RS_DISABLE, RS_ENABLE };
enum Pat : int { PAT_ALL, PAT_ALLF };
enum Mode : int { MODE_UNKNOWN, MODE_MERGING, MODE_ZEROING };
enum Pos : int {};
enum Order : int {};
enum Spr : int {};
enum StoreMode : int {};
enum Bin : int {};
enum RoundingName { ROUND_R, ROUND_A, ROUND_F, ROUND_C, ROUND_Z, ROUND_O };
// clang-format off
enum class ROUND { R, A, F, C, Z, O, H, CAST_RINT, CAST_ROUND, CAST_FLOOR, CAST_CEIL, CAST_TRUNC, CAST_ODD, CAST_HYBRID };
enum class pad_t { PAD_NONE };
enum class LD_L2CacheType { L2_CACHE_HINT_NORMAL_FV };
enum class ST_L2CacheType { L2_CACHE_HINT_NORMAL_FV };
enum class QuantMode_post { NoConv };
enum class QuantMode_t {
    NoQuant, F322F16, F322BF16, DEQF16, VDEQF16, DEQS16, VDEQS16, REQ8, VREQ8, REQ4, VREQ4,
    QF322F16_PRE, VQF322F16_PRE, QF322BF16_PRE, VQF322BF16_PRE, QF322F32_PRE, VQF322F32_PRE, QF322B8_PRE, VQF322B8_PRE,
    QF322FP8_PRE, VQF322FP8_PRE, QF322HIF8_PRE, VQF322HIF8_PRE, QF322HIF8_PRE_HYBRID, VQF322HIF8_PRE_HYBRID,
    QS322BF16_PRE, VQS322BF16_PRE, QF162B8_PRE, VQF162B8_PRE, QF162S4_PRE, VQF162S4_PRE, QF162S16_PRE, VQF162S16_PRE
};

// Intrinsics take anything: what a caller may pass is checked by the headers above them.
#define QBSA_RETURNS(type) template <class... Args> inline type
#define QBSA_VOID(X) \
    X(asc_prof_start) X(asc_prof_stop) X(broadcast_ub_to_cc) X(chistv2) X(copy_cbuf_to_bt) X(copy_cbuf_to_fbuf) \
    X(copy_cbuf_to_ubuf) X(copy_gm_to_cbuf_align_v2) X(copy_gm_to_cbuf_multi_dn2nz) X(copy_gm_to_cbuf_multi_nd2nz) \
    X(copy_gm_to_ubuf_align_v2) X(copy_matrix_cc_to_cbuf) X(copy_matrix_cc_to_gm) X(copy_matrix_cc_to_ub) \
    X(copy_ubuf_to_cbuf) X(copy_ubuf_to_gm) X(copy_ubuf_to_gm_align_v2) X(copy_ubuf_to_ubuf) X(create_cbuf_matrix) \
    X(create_cbuf_matrix_bf16) X(dc_preload) X(dcci) X(dhistv2) X(dsb) X(ffts_cross_core_sync) X(get_buf) \
    X(hset_flag) X(hwait_flag) X(img2colv2_cbuf_to_ca) X(img2colv2_cbuf_to_cb) X(ldva) X(load_cbuf_to_ca) \
    X(load_cbuf_to_ca_mx) X(load_cbuf_to_ca_s4) X(load_cbuf_to_cb) X(load_cbuf_to_cb_mx) X(load_cbuf_to_cb_s4) \
    X(load_cbuf_to_cb_transpose) X(load_cbuf_to_cb_transpose_s4) X(load_gm_to_cbuf_2dv2) X(load_gm_to_cbuf_2dv2_s4) X(mad) X(mad_mx) X(mem_bar) \
    X(nd_dma_dci) X(nddma_out_to_ub_b8) X(nddma_out_to_ub_b16) X(nddma_out_to_ub_b32) X(pand) X(pdintlv_b8) \
    X(pdintlv_b16) X(pdintlv_b32) X(pintlv_b8) X(pintlv_b16) X(pintlv_b32) X(pipe_barrier) X(pld) X(plds) X(pmov) \
    X(pnot) X(por) X(ppack) X(preload) X(psel) X(pst) X(psts) X(pstu) X(punpack) X(pxor) X(rls_buf) \
    X(scatter_vnchwconv_b8) X(scatter_vnchwconv_b16) X(scatter_vnchwconv_b32) X(set_aipp_spr_0) X(set_aipp_spr_1) \
    X(set_aipp_spr_2) X(set_aipp_spr_3) X(set_aipp_spr_4) X(set_aipp_spr_5) X(set_aipp_spr_6) X(set_aipp_spr_7) \
    X(set_aipp_spr_8) X(set_aipp_spr_9) X(set_aipp_spr_18) X(set_aipp_spr_19) X(set_aipp_spr_20) X(set_aipp_spr_21) \
    X(set_atomic_add) X(set_atomic_bf16) X(set_atomic_f16) X(set_atomic_f32) X(set_atomic_max) X(set_atomic_min) \
    X(set_atomic_none) X(set_atomic_s8) X(set_atomic_s16) X(set_atomic_s32) X(set_channel_para) X(set_ctrl) X(set_flag) \
    X(set_fmatrix) X(set_fmatrix_b) X(set_fpc) X(set_intra_block) X(set_l1_3d_size) X(set_l3d_rpt) \
    X(set_loop0_stride_nddma) X(set_loop1_stride_nddma) X(set_loop2_stride_nddma) X(set_loop3_stride_nddma) \
    X(set_loop4_stride_nddma) X(set_loop1_stride_outtoub) X(set_loop1_stride_ubtoout) X(set_loop2_stride_outtoub) \
    X(set_loop2_stride_ubtoout) X(set_loop3_para) X(set_loop_size_outtoub) X(set_loop_size_ubtoout) X(set_mask_count) \
    X(set_mask_norm) X(set_mov_pad_val) X(set_mte2_nz_para) X(set_mte2_src_para) X(set_pad_cnt_nddma) \
    X(set_pad_val_nddma) X(set_pad_val_outtol1) X(set_pad_val_outtoub) X(set_padding) X(set_pcie_rd_ctrl) \
    X(set_quant_pre) X(set_st_atomic_cfg) X(set_va_reg_sb) X(set_vector_mask) X(sprclr) X(st_dev) X(trap) X(vabs) \
    X(vabsdif) X(vadd) X(vaddc) X(vaddcs) X(vadds) X(vand) X(vaxpy) X(vbr) X(vcadd) X(vcgadd) X(vcgmax) X(vcgmin) \
    X(vci) X(vcmax) X(vcmin) X(vcmp_eq) X(vcmp_ge) X(vcmp_gt) X(vcmp_le) X(vcmp_lt) X(vcmp_ne) X(vcmps_eq) X(vcmps_ge) \
    X(vcmps_gt) X(vcmps_le) X(vcmps_lt) X(vcmps_ne) X(vcpadd) X(vcvt) X(vcvt_f162s4) X(vcvt_s162s4) X(vcvt_s42bf16) \
    X(vcvt_s42f16) X(vcvt_s42s16) X(vdintlv) X(vdiv) X(vdup) X(vexp) X(vexpdif) X(vgather2) X(vgather2_bc) X(vgatherb) X(vintlv) \
    X(vld) X(vlda) X(vldas) X(vlds) X(vldu) X(vldus) X(vln) X(vlrelu) X(vmadd) X(vmax) X(vmaxs) X(vmin) X(vmins) \
    X(vmov) X(vmrgsort4) X(vmul) X(vmula) X(vmull) X(vmuls) X(vmulscvt) X(vneg) X(vnot) X(vor) X(vpack) X(vprelu) \
    X(vrelu) X(vscatter) X(vsel) X(vselr) X(vshl) X(vshls) X(vshr) X(vshrs) X(vsldb) X(vsqrt) X(vsqz) X(vsstb) X(vst) \
    X(vsta) X(vstar) X(vstas) X(vsts) X(vstu) X(vstur) X(vstus) X(vsub) X(vsubc) X(vsubcs) X(vtranspose) X(vtrc) \
    X(vunpack) X(vusqz) X(vxor) X(wait_flag) X(wait_flag_dev) X(wait_intra_block) X(__set_kfc_workspace_addr)
#define QBSA_INTEGER(X) \
    X(bcnt0) X(bcnt1) X(clz) X(conv_f322s32a) X(conv_f322s32c) X(conv_f322s32f) X(conv_f322s32r) X(get_acc_val) \
    X(get_ar) X(get_arch_ver) X(get_block_idx) X(get_block_num) X(get_coreid) X(get_ctrl) X(get_icache_prl_st) \
    X(get_imm) X(get_para_base) X(get_pc) X(get_repeat_ceiling) X(get_rsvd_cnt) X(get_shmem_sz) X(get_st_atomic_cfg) \
    X(get_status) X(get_subblockdim) X(get_subblockid) X(get_sys_cnt) X(get_vms4_sr) X(ld_dev) X(sbitset0) X(sbitset1) \
    X(sff0) X(sff1) X(sflbits)
#define QBSA_MASK(X) \
    X(movp_b16) X(movp_b32) X(movvp) X(plt_b8) X(plt_b16) X(plt_b32) X(pset_b8) X(pset_b16) X(pset_b32)
#define QBSA_ADDRESS(X) X(vag_b8) X(vag_b16) X(vag_b32)
// clang-format on

#define X(name) QBSA_RETURNS(void) name(Args&&...);
QBSA_VOID(X)
#undef X
#define X(name) QBSA_RETURNS(int64_t) name(Args&&...);
QBSA_INTEGER(X)
#undef X
#define X(name) QBSA_RETURNS(vector_bool) name(Args&&...);
QBSA_MASK(X)
#undef X
#define X(name) QBSA_RETURNS(vector_address) name(Args&&...);
QBSA_ADDRESS(X)
#undef X
inline half conv_f322f16o(float);
inline __gm__ uint8_t* __get_kfc_workspace_addr();
namespace __cce_scalar {
using ::copy_ubuf_to_ubuf;
}

// bisheng takes a string literal for a __gm__ char*, clang does not. So the headers that only print and check at run
// time in debug builds are left out by their include guards, and what others call of them accepts anything.
#define ASC_DEVKIT_VERSION_STR ((const __gm__ char*)0)
#define ASCENDC_MODULE_CHECK_H
#define ASCENDC_MODULE_OPERATOR_DATA_COPY_CHECK_H
#define ASCENDC_MODULE_OPERATOR_DUMP_TENSOR_INTERFACE_H
#define ASCENDC_MODULE_OPERATOR_DUMP_TENSOR_INTERFACE_IMPL_H
#define ASCENDC_MODULE_OPERATOR_KERNEL_NPU_DEBUG_H
#define ASCENDC_MODULE_OPERATOR_MM_CHECK_H
#define ASCENDC_MODULE_OPERATOR_VEC_REDUCE_INTERFACE_IMPL_H
#define IMPL_UTILS_DEBUG_ASC_AICORE_DUMP_IMPL_H
#define IMPL_UTILS_DEBUG_ASC_AICORE_PRINTF_IMPL_H
#define IMPL_UTILS_DEBUG_ASC_AICORE_TIME_IMPL_H
#define INCLUDE_UTILS_DEBUG_ASC_ASSERT_H
#define INCLUDE_UTILS_DEBUG_ASC_TIME_H
// clang-format off
#define QBSA_CHECKS(X) \
    X(CheckLoadData2dDatatype) X(CheckTensorAlign) X(CheckTensorPos) X(CheckValueRange) X(ReportNopWarning)
// clang-format on
namespace AscendC {
template <class Params>
inline void CheckNd2NzParams(const Params&, const char*);
#define X(name)                                        \
    template <class... Types, class... Args>           \
    inline void name(const Args&...);                  \
    template <auto first, auto... rest, class... Args> \
    inline void name(const Args&...);
QBSA_CHECKS(X)
#undef X
}  // namespace AscendC

// High-level and SIMT interfaces: kernel_operator.h draws them in, the kernels do not use them.
#define LIB_KERNEL_API_H
#define ASCENDC_MODULE_SIMT_INTERFACE_H

// kernel<<<blocks, dynamic UB, stream>>>(arguments) is rewritten to launch(kernel, blocks, ...)(arguments).
namespace typecheck {

// What the host passes for a kernel parameter: it has no __gm__ pointers.
template <class Param>
struct HostType {
    static_assert(std::is_trivially_copyable<Param>::value, "kernel parameters travel as plain bytes");
    using Type = Param;
};
template <class T>
struct HostType<__gm__ T*> {
    using Type = T*;
};
template <class... Params>
struct Launch {
    void operator()(typename HostType<Params>::Type...) const;
};
template <class... Params>
Launch<Params...> launch(void (*kernel)(Params...), uint32_t blocks, uint32_t ub_bytes, void* stream);

struct AicpuLaunch {
    void operator()(void* args, size_t args_bytes) const;
};
AicpuLaunch launch(uint32_t (*kernel)(void*), uint32_t blocks, decltype(nullptr), void* stream);

}  // namespace typecheck
