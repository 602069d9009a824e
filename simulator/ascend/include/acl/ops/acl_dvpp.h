/* Media, first version: descriptions of pictures, VPC, JPEGD and JPEGE. A set of properties is a table here, and each
 * row gives a function that sets it and one that gets it. Source: acl_dvpp.h of CANN 5 as in Ascend/pytorch; see
 * acl.h. */
#pragma once

#include "acl/acl.h"

#pragma GCC visibility push(default)
#ifdef __cplusplus
extern "C" {
#endif

typedef struct acldvppPicDesc acldvppPicDesc;
typedef struct acldvppBatchPicDesc acldvppBatchPicDesc;
typedef struct acldvppRoiConfig acldvppRoiConfig;
typedef struct acldvppResizeConfig acldvppResizeConfig;
typedef struct acldvppChannelDesc acldvppChannelDesc;
typedef struct acldvppJpegeConfig acldvppJpegeConfig;
typedef struct acldvppStreamDesc acldvppStreamDesc;
/* The simulator has no video: these only let a program name them. */
typedef struct aclvdecChannelDesc aclvdecChannelDesc;
typedef struct aclvdecFrameConfig aclvdecFrameConfig;
typedef struct aclvencChannelDesc aclvencChannelDesc;
typedef struct aclvencFrameConfig aclvencFrameConfig;

typedef enum acldvppPixelFormat {
  PIXEL_FORMAT_YUV_400,
  PIXEL_FORMAT_YUV_SEMIPLANAR_420,
  PIXEL_FORMAT_YVU_SEMIPLANAR_420,
  PIXEL_FORMAT_YUV_SEMIPLANAR_422,
  PIXEL_FORMAT_YVU_SEMIPLANAR_422,
  PIXEL_FORMAT_YUV_SEMIPLANAR_444,
  PIXEL_FORMAT_YVU_SEMIPLANAR_444,
  PIXEL_FORMAT_YUYV_PACKED_422,
  PIXEL_FORMAT_UYVY_PACKED_422,
  PIXEL_FORMAT_YVYU_PACKED_422,
  PIXEL_FORMAT_VYUY_PACKED_422,
  PIXEL_FORMAT_YUV_PACKED_444,
  PIXEL_FORMAT_RGB_888,
  PIXEL_FORMAT_BGR_888,
  PIXEL_FORMAT_ARGB_8888,
  PIXEL_FORMAT_ABGR_8888,
  PIXEL_FORMAT_RGBA_8888,
  PIXEL_FORMAT_BGRA_8888,
  PIXEL_FORMAT_YUV_SEMIPLANAR_440 = 1000,
  PIXEL_FORMAT_YVU_SEMIPLANAR_440,
  PIXEL_FORMAT_UNKNOWN = 10000
} acldvppPixelFormat;
typedef enum acldvppStreamFormat {
  H265_MAIN_LEVEL,
  H264_BASELINE_LEVEL,
  H264_MAIN_LEVEL,
  H264_HIGH_LEVEL
} acldvppStreamFormat;
typedef enum acldvppChannelMode {
  DVPP_CHNMODE_VPC = 1,
  DVPP_CHNMODE_JPEGD = 2,
  DVPP_CHNMODE_JPEGE = 4,
  DVPP_CHNMODE_PNGD = 8
} acldvppChannelMode;
typedef enum acldvppJpegFormat {
  ACL_JPEG_CSS_444,
  ACL_JPEG_CSS_422,
  ACL_JPEG_CSS_420,
  ACL_JPEG_CSS_GRAY,
  ACL_JPEG_CSS_440,
  ACL_JPEG_CSS_411,
  ACL_JPEG_CSS_UNKNOWN = 1000
} acldvppJpegFormat;

/* Objects that are created without a parameter. */
#define ACL_DVPP_OBJECTS(OBJECT) \
  OBJECT(PicDesc) OBJECT(ResizeConfig) OBJECT(ChannelDesc) OBJECT(JpegeConfig) OBJECT(StreamDesc)
#define ACL_DVPP_PROPERTIES(PROPERTY)               \
  PROPERTY(PicDesc, Data, void*)                    \
  PROPERTY(PicDesc, Size, uint32_t)                 \
  PROPERTY(PicDesc, Format, acldvppPixelFormat)     \
  PROPERTY(PicDesc, Width, uint32_t)                \
  PROPERTY(PicDesc, Height, uint32_t)               \
  PROPERTY(PicDesc, WidthStride, uint32_t)          \
  PROPERTY(PicDesc, HeightStride, uint32_t)         \
  PROPERTY(PicDesc, RetCode, uint32_t)              \
  PROPERTY(ResizeConfig, Interpolation, uint32_t)   \
  PROPERTY(JpegeConfig, Level, uint32_t)            \
  PROPERTY(StreamDesc, Data, void*)                 \
  PROPERTY(StreamDesc, Size, uint32_t)              \
  PROPERTY(StreamDesc, Format, acldvppStreamFormat) \
  PROPERTY(StreamDesc, Timestamp, uint64_t)         \
  PROPERTY(StreamDesc, RetCode, uint32_t)           \
  PROPERTY(StreamDesc, Eos, uint8_t)
/* Properties without a function that gets them. */
#define ACL_DVPP_SETTINGS(PROPERTY)     \
  PROPERTY(RoiConfig, Left, uint32_t)   \
  PROPERTY(RoiConfig, Right, uint32_t)  \
  PROPERTY(RoiConfig, Top, uint32_t)    \
  PROPERTY(RoiConfig, Bottom, uint32_t) \
  PROPERTY(ChannelDesc, Mode, uint32_t)
#define ACL_DVPP_DECLARE_OBJECT(object)         \
  acldvpp##object* acldvppCreate##object(void); \
  aclError acldvppDestroy##object(acldvpp##object*);
#define ACL_DVPP_DECLARE_SET(object, property, type) \
  aclError acldvppSet##object##property(acldvpp##object* of, type value);
#define ACL_DVPP_DECLARE_BOTH(object, property, type) \
  ACL_DVPP_DECLARE_SET(object, property, type)        \
  type acldvppGet##object##property(const acldvpp##object* of);
ACL_DVPP_OBJECTS(ACL_DVPP_DECLARE_OBJECT)
ACL_DVPP_PROPERTIES(ACL_DVPP_DECLARE_BOTH)
ACL_DVPP_SETTINGS(ACL_DVPP_DECLARE_SET)

aclError acldvppMalloc(void** devPtr, size_t size);
aclError acldvppFree(void* devPtr);
aclError acldvppCreateChannel(acldvppChannelDesc* channelDesc);
aclError acldvppDestroyChannel(acldvppChannelDesc* channelDesc);
uint64_t acldvppGetChannelDescChannelId(const acldvppChannelDesc* channelDesc);
acldvppRoiConfig* acldvppCreateRoiConfig(uint32_t left, uint32_t right, uint32_t top, uint32_t bottom);
aclError acldvppDestroyRoiConfig(acldvppRoiConfig* roiConfig);
aclError acldvppSetRoiConfig(acldvppRoiConfig* config, uint32_t left, uint32_t right, uint32_t top, uint32_t bottom);
acldvppBatchPicDesc* acldvppCreateBatchPicDesc(uint32_t batchSize);
acldvppPicDesc* acldvppGetPicDesc(acldvppBatchPicDesc* batchPicDesc, uint32_t index);
aclError acldvppDestroyBatchPicDesc(acldvppBatchPicDesc* batchPicDesc);

/* Each scales the crop area, or the whole picture, into the paste area, or the whole picture. */
aclError acldvppVpcResizeAsync(acldvppChannelDesc* channelDesc, acldvppPicDesc* inputDesc, acldvppPicDesc* outputDesc,
                               acldvppResizeConfig* resizeConfig, aclrtStream stream);
aclError acldvppVpcCropAsync(acldvppChannelDesc* channelDesc, acldvppPicDesc* inputDesc, acldvppPicDesc* outputDesc,
                             acldvppRoiConfig* cropArea, aclrtStream stream);
aclError acldvppVpcCropResizeAsync(acldvppChannelDesc* channelDesc, acldvppPicDesc* inputDesc,
                                   acldvppPicDesc* outputDesc, acldvppRoiConfig* cropArea,
                                   acldvppResizeConfig* resizeConfig, aclrtStream stream);
aclError acldvppVpcCropAndPasteAsync(acldvppChannelDesc* channelDesc, acldvppPicDesc* inputDesc,
                                     acldvppPicDesc* outputDesc, acldvppRoiConfig* cropArea,
                                     acldvppRoiConfig* pasteArea, aclrtStream stream);
aclError acldvppVpcCropResizePasteAsync(acldvppChannelDesc* channelDesc, acldvppPicDesc* inputDesc,
                                        acldvppPicDesc* outputDesc, acldvppRoiConfig* cropArea,
                                        acldvppRoiConfig* pasteArea, acldvppResizeConfig* resizeConfig,
                                        aclrtStream stream);
/* The next roiNums[i] outputs and areas belong to picture i of `size`. */
aclError acldvppVpcBatchCropAsync(acldvppChannelDesc* channelDesc, acldvppBatchPicDesc* srcBatchPicDescs,
                                  uint32_t* roiNums, uint32_t size, acldvppBatchPicDesc* dstBatchPicDescs,
                                  acldvppRoiConfig* cropAreas[], aclrtStream stream);
aclError acldvppVpcBatchCropResizeAsync(acldvppChannelDesc* channelDesc, acldvppBatchPicDesc* srcBatchPicDescs,
                                        uint32_t* roiNums, uint32_t size, acldvppBatchPicDesc* dstBatchPicDescs,
                                        acldvppRoiConfig* cropAreas[], acldvppResizeConfig* resizeConfig,
                                        aclrtStream stream);

/* The size of a JPEG file is read from it. Its pixels are not: the decoded picture is a pattern (README.md). */
aclError acldvppJpegGetImageInfo(const void* data, uint32_t size, uint32_t* width, uint32_t* height,
                                 int32_t* components);
aclError acldvppJpegGetImageInfoV2(const void* data, uint32_t size, uint32_t* width, uint32_t* height,
                                   int32_t* components, acldvppJpegFormat* format);
aclError acldvppJpegPredictDecSize(const void* data, uint32_t dataSize, acldvppPixelFormat outputPixelFormat,
                                   uint32_t* decSize);
aclError acldvppJpegDecodeAsync(acldvppChannelDesc* channelDesc, const void* data, uint32_t size,
                                acldvppPicDesc* outputDesc, aclrtStream stream);
aclError acldvppJpegPredictEncSize(const acldvppPicDesc* inputDesc, const acldvppJpegeConfig* config, uint32_t* size);
aclError acldvppJpegEncodeAsync(acldvppChannelDesc* channelDesc, acldvppPicDesc* inputDesc, const void* data,
                                uint32_t* size, acldvppJpegeConfig* config, aclrtStream stream);

#ifdef __cplusplus
}
#endif
#pragma GCC visibility pop
