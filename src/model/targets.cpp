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

// One core of eight, which shares the memory of the card. 24 GB is the figure of the file; boards differ.
constexpr std::array<target_memory, 7> ascend_310p{{
    {.name = "l0a", .contents = holds::nothing, .size = {64 * KiB, ini_310p}, .alignment = {32}, .bandwidth = {512}},
    {.name = "l0b", .contents = holds::nothing, .size = {64 * KiB, ini_310p}, .alignment = {32}, .bandwidth = {256}},
    {.name = "l0c", .contents = holds::nothing, .size = {256 * KiB, ini_310p}, .alignment = {32}, .bandwidth = {256}},
    {.name = "ub", .size = {256 * KiB, ini_310p}, .alignment = {32}, .bandwidth = {256}, .latency = {100}},
    {.name = "l1", .size = {1 * MiB, ini_310p}, .alignment = {32}, .bandwidth = {128}, .latency = {100}},
    {.name = "l2", .contents = holds::nothing, .size = {16 * MiB, ini_310p}, .alignment = {32}, .bandwidth = {64}},
    {.name = "ddr",
     .size = {24'000'000'000, ini_310p},
     .alignment = {64, cann_malloc},
     .bandwidth = {25.6},
     .latency = {500}},
}};

// One cube core of 24. Rates of the file are bytes a cycle and core.
constexpr std::array<target_memory, 7> ascend_910b{{
    {.name = "l0a",
     .contents = holds::nothing,
     .size = {64 * KiB, ini_910b},
     .alignment = {32, ini_910b},
     .bandwidth = {947.2, ini_910b}},
    {.name = "l0b",
     .contents = holds::nothing,
     .size = {64 * KiB, ini_910b},
     .alignment = {32, ini_910b},
     .bandwidth = {473.6}},
    {.name = "l0c",
     .contents = holds::nothing,
     .size = {128 * KiB, ini_910b},
     .alignment = {32, ini_910b},
     .bandwidth = {473.6}},
    {.name = "ub", .size = {192 * KiB, ini_910b}, .alignment = {32, ini_910b}, .bandwidth = {473.6}, .latency = {100}},
    {.name = "l1", .size = {512 * KiB, ini_910b}, .alignment = {32, ini_910b}, .bandwidth = {236.8}, .latency = {100}},
    {.name = "l2",
     .contents = holds::nothing,
     .size = {192 * MiB, ini_910b},
     .alignment = {32},
     .bandwidth = {203.5, ini_910b}},
    {.name = "hbm",
     .size = {64 * GiB, ini_910b},
     .alignment = {64, cann_malloc},
     .bandwidth = {59.2, ini_910b},
     .latency = {500}},
}};

constexpr std::array<target_memory, 2> gpu_h100{{
    {.name = "hbm", .size = {80'000'000'000, dcgm}, .alignment = {256}, .bandwidth = {3350, triton}, .latency = {500}},
    {.name = "pinned", .size = {64 * GiB}, .alignment = {256}, .bandwidth = {64, scaleway}, .latency = {2000}},
}};

// Section Ethos_U55_High_End_Embedded: 500 MHz.
constexpr std::array<target_memory, 2> ethos_u55{{
    {.name = "sram", .size = {2 * MiB}, .alignment = {16, tflm}, .bandwidth = {4, vela}, .latency = {64, vela}},
    {.name = "flash",
     .contents = holds::weights,
     .size = {16 * MiB},
     .alignment = {16, tflm},
     .bandwidth = {0.5, vela},
     .latency = {128, vela}},
}};

// Section Ethos_U55_Deep_Embedded: 200 MHz.
constexpr std::array<target_memory, 2> ethos_u55_deep{{
    {.name = "sram", .size = {512 * KiB}, .alignment = {16, tflm}, .bandwidth = {1.6, vela}, .latency = {160, vela}},
    {.name = "flash",
     .contents = holds::weights,
     .size = {16 * MiB},
     .alignment = {16, tflm},
     .bandwidth = {0.1, vela},
     .latency = {320, vela}},
}};

// Sections Ethos_U65_High_End (1 GHz) and Dedicated_Sram_384KB.
constexpr std::array<target_memory, 2> ethos_u65{{
    {.name = "sram",
     .size = {384 * KiB, vela},
     .alignment = {16, tflm},
     .bandwidth = {16, vela},
     .latency = {32, vela}},
    {.name = "dram", .size = {1 * GiB}, .alignment = {16, tflm}, .bandwidth = {3.75, vela}, .latency = {500, vela}},
}};

// Sections Ethos_U85_SYS_DRAM_High (1 GHz) and Dedicated_Sram_512KB.
constexpr std::array<target_memory, 2> ethos_u85{{
    {.name = "sram",
     .size = {512 * KiB, vela},
     .alignment = {16, tflm},
     .bandwidth = {64, vela},
     .latency = {32, vela}},
    {.name = "dram", .size = {1 * GiB}, .alignment = {16, tflm}, .bandwidth = {24, vela}, .latency = {500, vela}},
}};

// DTCM: eight bytes a cycle at 480 MHz. AXI: eight bytes at 240 MHz. SDRAM: 32 bits at 100 MHz.
constexpr std::array<target_memory, 4> stm32h743{{
    {.name = "dtcm", .size = {128 * KiB, zephyr_h743}, .alignment = {16, tflm}, .bandwidth = {3.84}, .latency = {50}},
    {.name = "axi_sram",
     .size = {512 * KiB, zephyr_h743},
     .alignment = {16, tflm},
     .bandwidth = {1.92},
     .latency = {50}},
    {.name = "flash",
     .contents = holds::weights,
     .size = {2 * MiB, h743_overview},
     .alignment = {16, tflm},
     .bandwidth = {0.5},
     .latency = {100}},
    {.name = "sdram", .size = {32 * MiB}, .alignment = {16, tflm}, .bandwidth = {0.4}, .latency = {150}},
}};

// SRAM: four bytes a cycle at 240 MHz. PSRAM: eight lines at 80 MHz, both edges.
constexpr std::array<target_memory, 3> esp32s3{{
    {.name = "sram", .size = {512 * KiB, esp32s3_page}, .alignment = {16, tflm}, .bandwidth = {0.96}, .latency = {50}},
    {.name = "psram", .size = {8 * MiB}, .alignment = {16, tflm}, .bandwidth = {0.16}, .latency = {500}},
    {.name = "flash",
     .contents = holds::weights,
     .size = {16 * MiB},
     .alignment = {16, tflm},
     .bandwidth = {0.08},
     .latency = {500}},
}};

// SRAM: four bytes a cycle at 150 MHz. QSPI: four lines at 75 MHz. The two scratch banks of 4 KiB hold stacks.
constexpr std::array<target_memory, 3> rp2350{{
    {.name = "sram", .size = {512 * KiB, pico_sdk}, .alignment = {16, tflm}, .bandwidth = {0.6}, .latency = {50}},
    {.name = "psram", .size = {8 * MiB}, .alignment = {16, tflm}, .bandwidth = {0.0375}, .latency = {500}},
    {.name = "flash",
     .contents = holds::weights,
     .size = {16 * MiB},
     .alignment = {16, tflm},
     .bandwidth = {0.0375},
     .latency = {500}},
}};

// DTCM: eight bytes a cycle at 996 MHz. OCRAM: eight bytes at 240 MHz. SDRAM: 16 bits at 200 MHz.
constexpr std::array<target_memory, 4> imxrt1170{{
    {.name = "dtcm",
     .size = {256 * KiB, zephyr_rt1170},
     .alignment = {16, tflm},
     .bandwidth = {7.968},
     .latency = {50}},
    {.name = "ocram", .size = {1 * MiB}, .alignment = {16, tflm}, .bandwidth = {1.92}, .latency = {50}},
    {.name = "sdram", .size = {64 * MiB}, .alignment = {16, tflm}, .bandwidth = {0.4}, .latency = {150}},
    {.name = "flash",
     .contents = holds::weights,
     .size = {16 * MiB},
     .alignment = {16, tflm},
     .bandwidth = {0.133},
     .latency = {500}},
}};

constexpr std::array<target_memory, 2> hexagon{{
    {.name = "vtcm", .size = {8 * MiB, hap}, .alignment = {128}, .bandwidth = {500}, .latency = {100}},
    {.name = "ddr", .size = {8 * GiB}, .alignment = {128}, .bandwidth = {60}, .latency = {300}},
}};

// The host's memory through USB 3.0.
constexpr std::array<target_memory, 2> coral{{
    {.name = "sram", .size = {8 * MiB}, .alignment = {64}, .bandwidth = {32}, .latency = {100}},
    {.name = "host", .size = {4 * GiB}, .alignment = {64}, .bandwidth = {0.5, coral_usb}, .latency = {20000}},
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
