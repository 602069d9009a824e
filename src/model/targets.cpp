// The memories of known targets. Every figure stands beside the document that states it; figures without a document are
// assumed. Sources that give cycles are converted with the clock they name.
#include <algorithm>
#include <array>

#include "berth/model/memories.hpp"

namespace berth::model {
namespace {

constexpr bytes KiB = bytes{1} << 10, MiB = bytes{1} << 20, GiB = bytes{1} << 30;

// Documents.
constexpr std::string_view ini_310p = "CANN 9.0 platform_config/Ascend310P3.ini";
constexpr std::string_view ini_910b = "CANN 9.0 platform_config/Ascend910B1.ini, at cube_freq 1850 MHz";
constexpr std::string_view cann_malloc = "CANN 8.0 application development guide, memory sub-allocation (aclrtMalloc)";
constexpr std::string_view dcgm = "NVIDIA DCGM user guide, NVBandwidth plugin: supported products";
constexpr std::string_view triton = "GPU Programming with Triton, section 3.1.3";
constexpr std::string_view scaleway = "Scaleway, Migrating to H100: PCIe Gen 5, 128 GB/s in both directions together";
constexpr std::string_view tflm = "tensorflow/lite/micro/micro_arena_constants.h";
constexpr std::string_view vela = "Arm Vela, config_files/Arm/vela.ini";
constexpr std::string_view zephyr_h743 = "Zephyr dts/arm/st/h7/stm32h743.dtsi";
constexpr std::string_view h743_overview = "0xhenry.dev/en/study/stm32-architecture, STM32H743VITx";
constexpr std::string_view zephyr_rt1170 = "Zephyr dts/arm/nxp/nxp_rt1170_cm7.dtsi";
constexpr std::string_view esp32s3_page = "espressif.com/products/socs/ESP32-S3";
constexpr std::string_view pico_sdk = "Pico SDK, src/rp2_common/pico_crt0/rp2350/memmap_default.ld";
constexpr std::string_view coral_usb =
    "Coral USB Accelerator datasheet 1.4: USB 3.1 Gen 1, 5 Gbit/s in code words of ten bits";
constexpr std::string_view hap = "Qualcomm HAP_compute_res: an architecture supporting 8MB of VTCM";

using enum holds;

// Columns: name, contents, size, alignment of starts, bandwidth in GB/s, latency of a copy in ns.

// One core of eight, which shares the memory of the card. 24 GB is the figure of the file; boards differ.
constexpr std::array<target_memory, 7> ascend_310p{{
    {"l0a", nothing, {64 * KiB, ini_310p}, {32}, {512}},
    {"l0b", nothing, {64 * KiB, ini_310p}, {32}, {256}},
    {"l0c", nothing, {256 * KiB, ini_310p}, {32}, {256}},
    {"ub", everything, {256 * KiB, ini_310p}, {32}, {256}, {100}},
    {"l1", everything, {1 * MiB, ini_310p}, {32}, {128}, {100}},
    {"l2", nothing, {16 * MiB, ini_310p}, {32}, {64}},
    {"ddr", everything, {24'000'000'000, ini_310p}, {64, cann_malloc}, {25.6}, {500}},
}};

// One cube core of 24. Rates of the file are bytes a cycle and core.
constexpr std::array<target_memory, 7> ascend_910b{{
    {"l0a", nothing, {64 * KiB, ini_910b}, {32, ini_910b}, {947.2, ini_910b}},
    {"l0b", nothing, {64 * KiB, ini_910b}, {32, ini_910b}, {473.6}},
    {"l0c", nothing, {128 * KiB, ini_910b}, {32, ini_910b}, {473.6}},
    {"ub", everything, {192 * KiB, ini_910b}, {32, ini_910b}, {473.6}, {100}},
    {"l1", everything, {512 * KiB, ini_910b}, {32, ini_910b}, {236.8}, {100}},
    {"l2", nothing, {192 * MiB, ini_910b}, {32}, {203.5, ini_910b}},
    {"hbm", everything, {64 * GiB, ini_910b}, {64, cann_malloc}, {59.2, ini_910b}, {500}},
}};

constexpr std::array<target_memory, 2> gpu_h100{{
    {"hbm", everything, {80'000'000'000, dcgm}, {256}, {3350, triton}, {500}},
    {"pinned", everything, {64 * GiB}, {256}, {64, scaleway}, {2000}},
}};

// Section Ethos_U55_High_End_Embedded: 500 MHz.
constexpr std::array<target_memory, 2> ethos_u55{{
    {"sram", everything, {2 * MiB}, {16, tflm}, {4, vela}, {64, vela}},
    {"flash", weights, {16 * MiB}, {16, tflm}, {0.5, vela}, {128, vela}},
}};

// Section Ethos_U55_Deep_Embedded: 200 MHz.
constexpr std::array<target_memory, 2> ethos_u55_deep{{
    {"sram", everything, {512 * KiB}, {16, tflm}, {1.6, vela}, {160, vela}},
    {"flash", weights, {16 * MiB}, {16, tflm}, {0.1, vela}, {320, vela}},
}};

// Sections Ethos_U65_High_End (1 GHz) and Dedicated_Sram_384KB.
constexpr std::array<target_memory, 2> ethos_u65{{
    {"sram", everything, {384 * KiB, vela}, {16, tflm}, {16, vela}, {32, vela}},
    {"dram", everything, {1 * GiB}, {16, tflm}, {3.75, vela}, {500, vela}},
}};

// Sections Ethos_U85_SYS_DRAM_High (1 GHz) and Dedicated_Sram_512KB.
constexpr std::array<target_memory, 2> ethos_u85{{
    {"sram", everything, {512 * KiB, vela}, {16, tflm}, {64, vela}, {32, vela}},
    {"dram", everything, {1 * GiB}, {16, tflm}, {24, vela}, {500, vela}},
}};

// DTCM: eight bytes a cycle at 480 MHz. AXI: eight bytes at 240 MHz. SDRAM: 32 bits at 100 MHz.
constexpr std::array<target_memory, 4> stm32h743{{
    {"dtcm", everything, {128 * KiB, zephyr_h743}, {16, tflm}, {3.84}, {50}},
    {"axi_sram", everything, {512 * KiB, zephyr_h743}, {16, tflm}, {1.92}, {50}},
    {"flash", weights, {2 * MiB, h743_overview}, {16, tflm}, {0.5}, {100}},
    {"sdram", everything, {32 * MiB}, {16, tflm}, {0.4}, {150}},
}};

// SRAM: four bytes a cycle at 240 MHz. PSRAM: eight lines at 80 MHz, both edges.
constexpr std::array<target_memory, 3> esp32s3{{
    {"sram", everything, {512 * KiB, esp32s3_page}, {16, tflm}, {0.96}, {50}},
    {"psram", everything, {8 * MiB}, {16, tflm}, {0.16}, {500}},
    {"flash", weights, {16 * MiB}, {16, tflm}, {0.08}, {500}},
}};

// SRAM: four bytes a cycle at 150 MHz. QSPI: four lines at 75 MHz. The two scratch banks of 4 KiB hold stacks.
constexpr std::array<target_memory, 3> rp2350{{
    {"sram", everything, {512 * KiB, pico_sdk}, {16, tflm}, {0.6}, {50}},
    {"psram", everything, {8 * MiB}, {16, tflm}, {0.0375}, {500}},
    {"flash", weights, {16 * MiB}, {16, tflm}, {0.0375}, {500}},
}};

// DTCM: eight bytes a cycle at 996 MHz. OCRAM: eight bytes at 240 MHz. SDRAM: 16 bits at 200 MHz.
constexpr std::array<target_memory, 4> imxrt1170{{
    {"dtcm", everything, {256 * KiB, zephyr_rt1170}, {16, tflm}, {7.968}, {50}},
    {"ocram", everything, {1 * MiB}, {16, tflm}, {1.92}, {50}},
    {"sdram", everything, {64 * MiB}, {16, tflm}, {0.4}, {150}},
    {"flash", weights, {16 * MiB}, {16, tflm}, {0.133}, {500}},
}};

constexpr std::array<target_memory, 2> hexagon{{
    {"vtcm", everything, {8 * MiB, hap}, {128}, {500}, {100}},
    {"ddr", everything, {8 * GiB}, {128}, {60}, {300}},
}};

// The host's memory through USB 3.0.
constexpr std::array<target_memory, 2> coral{{
    {"sram", everything, {8 * MiB}, {64}, {32}, {100}},
    {"host", everything, {4 * GiB}, {64}, {0.5, coral_usb}, {20000}},
}};

constexpr std::array<target, 13> all{{
    {"ascend_310p", "Ascend 310P3, one AI core", ascend_310p},
    {"ascend_910b", "Ascend 910B1, one AI core", ascend_910b},
    {"gpu_h100", "NVIDIA H100 with pinned host memory over PCIe 5.0 x16", gpu_h100},
    {"ethos_u55", "Arm Ethos-U55 at 500 MHz, weights in flash", ethos_u55},
    {"ethos_u55_deep", "Arm Ethos-U55 at 200 MHz, weights in flash", ethos_u55_deep},
    {"ethos_u65", "Arm Ethos-U65 at 1 GHz, 384 KiB of its own SRAM", ethos_u65},
    {"ethos_u85", "Arm Ethos-U85 at 1 GHz, 512 KiB of its own SRAM", ethos_u85},
    {"stm32h743", "ST STM32H743 at 480 MHz with SDRAM", stm32h743},
    {"esp32s3", "Espressif ESP32-S3 at 240 MHz with octal PSRAM", esp32s3},
    {"rp2350", "Raspberry Pi RP2350 at 150 MHz with QSPI PSRAM", rp2350},
    {"imxrt1170", "NXP i.MX RT1170 at 996 MHz with SDRAM", imxrt1170},
    {"hexagon", "Qualcomm Hexagon NPU with VTCM", hexagon},
    {"coral", "Google Coral Edge TPU on USB 3.0", coral},
}};

}  // namespace

const char* name(holds h) noexcept {
  switch (h) {
    case holds::everything: return "everything";
    case holds::weights: return "weights";
    case holds::nothing: return "nothing";
  }
  return "";
}

std::span<const target> targets() noexcept {
  return all;
}

const target* find_target(std::string_view name) noexcept {
  const auto it = std::ranges::find(all, name, &target::name);
  return it != all.end() ? &*it : nullptr;
}

}  // namespace berth::model
