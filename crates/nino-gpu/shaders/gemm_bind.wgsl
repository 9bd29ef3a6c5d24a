// Bindings, parameters and the load and store functions of the matrix kernels.
#include gemm_params
#include io
#include act
#bind O OT
#if COOP && PX
#bind4 X
#elif COOP
// Eight f16 at a time: naga has no bitcast between u32 and f16.
#bind8 X
fn half8(a: vec4<f32>, b: vec4<f32>) -> mat2x4<f16> { return mat2x4<f16>(vec4<f16>(a), vec4<f16>(b)); }
#elif PX
#bind2 X XT
#else
#bind X XT
#endif
#if COOP && PX
#bind4 W
#elif COOP && WT == 1
#bind8 W
#elif PX
#bind2 W WT
#else
#bind W WT
#endif
#if SCALE
#bind SC SCT
#endif
#if BIAS
#bind BI BT
#endif
#if FACTOR
#bind FA FAT
#endif
#if RES
#bind R RT
#endif
#if PRO || I8 || HALVES
#bind S F32
#endif
#if PRO_W
#bind NW NWT
#endif
#if PRO_B
#bind NB NBT
#endif
#include prologue
#if I8
#include weight
#elif CONV == 1
#include a_conv
#elif CONV == 2
const NONE = 0xffffffffu;
#else
#include a_rows
#endif
#if !PX && !I8
#include gemm_weight
#endif
#include epilogue
