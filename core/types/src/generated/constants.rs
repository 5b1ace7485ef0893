// Generated from core/bindings/table/abi-constants.tsv by weft-bindings; do not edit.
//! Values of the MPI standard ABI (MPI 5.0, chapter ABI), as plain integers.

/// `MPI_OP_NULL` (handle:MPI_Op).
pub const MPI_OP_NULL: u32 = 32;
/// `MPI_SUM` (handle:MPI_Op).
pub const MPI_SUM: u32 = 33;
/// `MPI_MIN` (handle:MPI_Op).
pub const MPI_MIN: u32 = 34;
/// `MPI_MAX` (handle:MPI_Op).
pub const MPI_MAX: u32 = 35;
/// `MPI_PROD` (handle:MPI_Op).
pub const MPI_PROD: u32 = 36;
/// `MPI_BAND` (handle:MPI_Op).
pub const MPI_BAND: u32 = 40;
/// `MPI_BOR` (handle:MPI_Op).
pub const MPI_BOR: u32 = 41;
/// `MPI_BXOR` (handle:MPI_Op).
pub const MPI_BXOR: u32 = 42;
/// `MPI_LAND` (handle:MPI_Op).
pub const MPI_LAND: u32 = 48;
/// `MPI_LOR` (handle:MPI_Op).
pub const MPI_LOR: u32 = 49;
/// `MPI_LXOR` (handle:MPI_Op).
pub const MPI_LXOR: u32 = 50;
/// `MPI_MINLOC` (handle:MPI_Op).
pub const MPI_MINLOC: u32 = 56;
/// `MPI_MAXLOC` (handle:MPI_Op).
pub const MPI_MAXLOC: u32 = 57;
/// `MPI_REPLACE` (handle:MPI_Op).
pub const MPI_REPLACE: u32 = 60;
/// `MPI_NO_OP` (handle:MPI_Op).
pub const MPI_NO_OP: u32 = 61;
/// `MPI_COMM_NULL` (handle:MPI_Comm).
pub const MPI_COMM_NULL: u32 = 256;
/// `MPI_COMM_WORLD` (handle:MPI_Comm).
pub const MPI_COMM_WORLD: u32 = 257;
/// `MPI_COMM_SELF` (handle:MPI_Comm).
pub const MPI_COMM_SELF: u32 = 258;
/// `MPI_GROUP_NULL` (handle:MPI_Group).
pub const MPI_GROUP_NULL: u32 = 264;
/// `MPI_GROUP_EMPTY` (handle:MPI_Group).
pub const MPI_GROUP_EMPTY: u32 = 265;
/// `MPI_WIN_NULL` (handle:MPI_Win).
pub const MPI_WIN_NULL: u32 = 272;
/// `MPI_FILE_NULL` (handle:MPI_File).
pub const MPI_FILE_NULL: u32 = 280;
/// `MPI_SESSION_NULL` (handle:MPI_Session).
pub const MPI_SESSION_NULL: u32 = 288;
/// `MPI_MESSAGE_NULL` (handle:MPI_Message).
pub const MPI_MESSAGE_NULL: u32 = 296;
/// `MPI_MESSAGE_NO_PROC` (handle:MPI_Message).
pub const MPI_MESSAGE_NO_PROC: u32 = 297;
/// `MPI_INFO_NULL` (handle:MPI_Info).
pub const MPI_INFO_NULL: u32 = 304;
/// `MPI_INFO_ENV` (handle:MPI_Info).
pub const MPI_INFO_ENV: u32 = 305;
/// `MPI_ERRHANDLER_NULL` (handle:MPI_Errhandler).
pub const MPI_ERRHANDLER_NULL: u32 = 320;
/// `MPI_ERRORS_ARE_FATAL` (handle:MPI_Errhandler).
pub const MPI_ERRORS_ARE_FATAL: u32 = 321;
/// `MPI_ERRORS_ABORT` (handle:MPI_Errhandler).
pub const MPI_ERRORS_ABORT: u32 = 322;
/// `MPI_ERRORS_RETURN` (handle:MPI_Errhandler).
pub const MPI_ERRORS_RETURN: u32 = 323;
/// `MPI_REQUEST_NULL` (handle:MPI_Request).
pub const MPI_REQUEST_NULL: u32 = 384;
/// `MPI_DATATYPE_NULL` (handle:MPI_Datatype).
pub const MPI_DATATYPE_NULL: u32 = 512;
/// `MPI_AINT` (handle:MPI_Datatype).
pub const MPI_AINT: u32 = 513;
/// `MPI_COUNT` (handle:MPI_Datatype).
pub const MPI_COUNT: u32 = 514;
/// `MPI_OFFSET` (handle:MPI_Datatype).
pub const MPI_OFFSET: u32 = 515;
/// `MPI_PACKED` (handle:MPI_Datatype).
pub const MPI_PACKED: u32 = 519;
/// `MPI_SHORT` (handle:MPI_Datatype).
pub const MPI_SHORT: u32 = 520;
/// `MPI_INT` (handle:MPI_Datatype).
pub const MPI_INT: u32 = 521;
/// `MPI_LONG` (handle:MPI_Datatype).
pub const MPI_LONG: u32 = 522;
/// `MPI_LONG_LONG` (handle:MPI_Datatype).
pub const MPI_LONG_LONG: u32 = 523;
/// `MPI_LONG_LONG_INT` (handle:MPI_Datatype(alias of MPI_LONG_LONG)).
pub const MPI_LONG_LONG_INT: u32 = 523;
/// `MPI_UNSIGNED_SHORT` (handle:MPI_Datatype).
pub const MPI_UNSIGNED_SHORT: u32 = 524;
/// `MPI_UNSIGNED` (handle:MPI_Datatype).
pub const MPI_UNSIGNED: u32 = 525;
/// `MPI_UNSIGNED_LONG` (handle:MPI_Datatype).
pub const MPI_UNSIGNED_LONG: u32 = 526;
/// `MPI_UNSIGNED_LONG_LONG` (handle:MPI_Datatype).
pub const MPI_UNSIGNED_LONG_LONG: u32 = 527;
/// `MPI_FLOAT` (handle:MPI_Datatype).
pub const MPI_FLOAT: u32 = 528;
/// `MPI_C_FLOAT_COMPLEX` (handle:MPI_Datatype).
pub const MPI_C_FLOAT_COMPLEX: u32 = 530;
/// `MPI_C_COMPLEX` (handle:MPI_Datatype(alias of MPI_C_FLOAT_COMPLEX)).
pub const MPI_C_COMPLEX: u32 = 530;
/// `MPI_CXX_FLOAT_COMPLEX` (handle:MPI_Datatype).
pub const MPI_CXX_FLOAT_COMPLEX: u32 = 531;
/// `MPI_DOUBLE` (handle:MPI_Datatype).
pub const MPI_DOUBLE: u32 = 532;
/// `MPI_C_DOUBLE_COMPLEX` (handle:MPI_Datatype).
pub const MPI_C_DOUBLE_COMPLEX: u32 = 534;
/// `MPI_CXX_DOUBLE_COMPLEX` (handle:MPI_Datatype).
pub const MPI_CXX_DOUBLE_COMPLEX: u32 = 535;
/// `MPI_LOGICAL` (handle:MPI_Datatype).
pub const MPI_LOGICAL: u32 = 536;
/// `MPI_INTEGER` (handle:MPI_Datatype).
pub const MPI_INTEGER: u32 = 537;
/// `MPI_REAL` (handle:MPI_Datatype).
pub const MPI_REAL: u32 = 538;
/// `MPI_COMPLEX` (handle:MPI_Datatype).
pub const MPI_COMPLEX: u32 = 539;
/// `MPI_DOUBLE_PRECISION` (handle:MPI_Datatype).
pub const MPI_DOUBLE_PRECISION: u32 = 540;
/// `MPI_DOUBLE_COMPLEX` (handle:MPI_Datatype).
pub const MPI_DOUBLE_COMPLEX: u32 = 541;
/// `MPI_CHARACTER` (handle:MPI_Datatype).
pub const MPI_CHARACTER: u32 = 542;
/// `MPI_LONG_DOUBLE` (handle:MPI_Datatype).
pub const MPI_LONG_DOUBLE: u32 = 544;
/// `MPI_C_LONG_DOUBLE_COMPLEX` (handle:MPI_Datatype).
pub const MPI_C_LONG_DOUBLE_COMPLEX: u32 = 548;
/// `MPI_CXX_LONG_DOUBLE_COMPLEX` (handle:MPI_Datatype).
pub const MPI_CXX_LONG_DOUBLE_COMPLEX: u32 = 549;
/// `MPI_FLOAT_INT` (handle:MPI_Datatype).
pub const MPI_FLOAT_INT: u32 = 552;
/// `MPI_DOUBLE_INT` (handle:MPI_Datatype).
pub const MPI_DOUBLE_INT: u32 = 553;
/// `MPI_LONG_INT` (handle:MPI_Datatype).
pub const MPI_LONG_INT: u32 = 554;
/// `MPI_2INT` (handle:MPI_Datatype).
pub const MPI_2INT: u32 = 555;
/// `MPI_SHORT_INT` (handle:MPI_Datatype).
pub const MPI_SHORT_INT: u32 = 556;
/// `MPI_LONG_DOUBLE_INT` (handle:MPI_Datatype).
pub const MPI_LONG_DOUBLE_INT: u32 = 557;
/// `MPI_2REAL` (handle:MPI_Datatype).
pub const MPI_2REAL: u32 = 560;
/// `MPI_2DOUBLE_PRECISION` (handle:MPI_Datatype).
pub const MPI_2DOUBLE_PRECISION: u32 = 561;
/// `MPI_2INTEGER` (handle:MPI_Datatype).
pub const MPI_2INTEGER: u32 = 562;
/// `MPI_C_BOOL` (handle:MPI_Datatype).
pub const MPI_C_BOOL: u32 = 568;
/// `MPI_CXX_BOOL` (handle:MPI_Datatype).
pub const MPI_CXX_BOOL: u32 = 569;
/// `MPI_WCHAR` (handle:MPI_Datatype).
pub const MPI_WCHAR: u32 = 572;
/// `MPI_INT8_T` (handle:MPI_Datatype).
pub const MPI_INT8_T: u32 = 576;
/// `MPI_UINT8_T` (handle:MPI_Datatype).
pub const MPI_UINT8_T: u32 = 577;
/// `MPI_CHAR` (handle:MPI_Datatype).
pub const MPI_CHAR: u32 = 579;
/// `MPI_SIGNED_CHAR` (handle:MPI_Datatype).
pub const MPI_SIGNED_CHAR: u32 = 580;
/// `MPI_UNSIGNED_CHAR` (handle:MPI_Datatype).
pub const MPI_UNSIGNED_CHAR: u32 = 581;
/// `MPI_BYTE` (handle:MPI_Datatype).
pub const MPI_BYTE: u32 = 583;
/// `MPI_INT16_T` (handle:MPI_Datatype).
pub const MPI_INT16_T: u32 = 584;
/// `MPI_UINT16_T` (handle:MPI_Datatype).
pub const MPI_UINT16_T: u32 = 585;
/// `MPI_INT32_T` (handle:MPI_Datatype).
pub const MPI_INT32_T: u32 = 592;
/// `MPI_UINT32_T` (handle:MPI_Datatype).
pub const MPI_UINT32_T: u32 = 593;
/// `MPI_INT64_T` (handle:MPI_Datatype).
pub const MPI_INT64_T: u32 = 600;
/// `MPI_UINT64_T` (handle:MPI_Datatype).
pub const MPI_UINT64_T: u32 = 601;
/// `MPI_LOGICAL1` (handle:MPI_Datatype).
pub const MPI_LOGICAL1: u32 = 704;
/// `MPI_INTEGER1` (handle:MPI_Datatype).
pub const MPI_INTEGER1: u32 = 705;
/// `MPI_LOGICAL2` (handle:MPI_Datatype).
pub const MPI_LOGICAL2: u32 = 712;
/// `MPI_INTEGER2` (handle:MPI_Datatype).
pub const MPI_INTEGER2: u32 = 713;
/// `MPI_REAL2` (handle:MPI_Datatype).
pub const MPI_REAL2: u32 = 714;
/// `MPI_LOGICAL4` (handle:MPI_Datatype).
pub const MPI_LOGICAL4: u32 = 720;
/// `MPI_INTEGER4` (handle:MPI_Datatype).
pub const MPI_INTEGER4: u32 = 721;
/// `MPI_REAL4` (handle:MPI_Datatype).
pub const MPI_REAL4: u32 = 722;
/// `MPI_COMPLEX4` (handle:MPI_Datatype).
pub const MPI_COMPLEX4: u32 = 723;
/// `MPI_LOGICAL8` (handle:MPI_Datatype).
pub const MPI_LOGICAL8: u32 = 728;
/// `MPI_INTEGER8` (handle:MPI_Datatype).
pub const MPI_INTEGER8: u32 = 729;
/// `MPI_REAL8` (handle:MPI_Datatype).
pub const MPI_REAL8: u32 = 730;
/// `MPI_COMPLEX8` (handle:MPI_Datatype).
pub const MPI_COMPLEX8: u32 = 731;
/// `MPI_LOGICAL16` (handle:MPI_Datatype).
pub const MPI_LOGICAL16: u32 = 736;
/// `MPI_INTEGER16` (handle:MPI_Datatype).
pub const MPI_INTEGER16: u32 = 737;
/// `MPI_REAL16` (handle:MPI_Datatype).
pub const MPI_REAL16: u32 = 738;
/// `MPI_COMPLEX16` (handle:MPI_Datatype).
pub const MPI_COMPLEX16: u32 = 739;
/// `MPI_COMPLEX32` (handle:MPI_Datatype).
pub const MPI_COMPLEX32: u32 = 747;
/// `MPI_F_STATUS_SIZE` (fortran_status).
pub const MPI_F_STATUS_SIZE: i32 = 8;
/// `MPI_F_SOURCE` (fortran_status).
pub const MPI_F_SOURCE: i32 = 0;
/// `MPI_F_TAG` (fortran_status).
pub const MPI_F_TAG: i32 = 1;
/// `MPI_F_ERROR` (fortran_status).
pub const MPI_F_ERROR: i32 = 2;
/// `MPI_SUCCESS` (error_class).
pub const MPI_SUCCESS: i32 = 0;
/// `MPI_ERR_BUFFER` (error_class).
pub const MPI_ERR_BUFFER: i32 = 1;
/// `MPI_ERR_COUNT` (error_class).
pub const MPI_ERR_COUNT: i32 = 2;
/// `MPI_ERR_TYPE` (error_class).
pub const MPI_ERR_TYPE: i32 = 3;
/// `MPI_ERR_TAG` (error_class).
pub const MPI_ERR_TAG: i32 = 4;
/// `MPI_ERR_COMM` (error_class).
pub const MPI_ERR_COMM: i32 = 5;
/// `MPI_ERR_RANK` (error_class).
pub const MPI_ERR_RANK: i32 = 6;
/// `MPI_ERR_REQUEST` (error_class).
pub const MPI_ERR_REQUEST: i32 = 7;
/// `MPI_ERR_ROOT` (error_class).
pub const MPI_ERR_ROOT: i32 = 8;
/// `MPI_ERR_GROUP` (error_class).
pub const MPI_ERR_GROUP: i32 = 9;
/// `MPI_ERR_OP` (error_class).
pub const MPI_ERR_OP: i32 = 10;
/// `MPI_ERR_TOPOLOGY` (error_class).
pub const MPI_ERR_TOPOLOGY: i32 = 11;
/// `MPI_ERR_DIMS` (error_class).
pub const MPI_ERR_DIMS: i32 = 12;
/// `MPI_ERR_ARG` (error_class).
pub const MPI_ERR_ARG: i32 = 13;
/// `MPI_ERR_UNKNOWN` (error_class).
pub const MPI_ERR_UNKNOWN: i32 = 14;
/// `MPI_ERR_TRUNCATE` (error_class).
pub const MPI_ERR_TRUNCATE: i32 = 15;
/// `MPI_ERR_OTHER` (error_class).
pub const MPI_ERR_OTHER: i32 = 16;
/// `MPI_ERR_INTERN` (error_class).
pub const MPI_ERR_INTERN: i32 = 17;
/// `MPI_ERR_PENDING` (error_class).
pub const MPI_ERR_PENDING: i32 = 18;
/// `MPI_ERR_IN_STATUS` (error_class).
pub const MPI_ERR_IN_STATUS: i32 = 19;
/// `MPI_ERR_ACCESS` (error_class).
pub const MPI_ERR_ACCESS: i32 = 20;
/// `MPI_ERR_AMODE` (error_class).
pub const MPI_ERR_AMODE: i32 = 21;
/// `MPI_ERR_ASSERT` (error_class).
pub const MPI_ERR_ASSERT: i32 = 22;
/// `MPI_ERR_BAD_FILE` (error_class).
pub const MPI_ERR_BAD_FILE: i32 = 23;
/// `MPI_ERR_BASE` (error_class).
pub const MPI_ERR_BASE: i32 = 24;
/// `MPI_ERR_CONVERSION` (error_class).
pub const MPI_ERR_CONVERSION: i32 = 25;
/// `MPI_ERR_DISP` (error_class).
pub const MPI_ERR_DISP: i32 = 26;
/// `MPI_ERR_DUP_DATAREP` (error_class).
pub const MPI_ERR_DUP_DATAREP: i32 = 27;
/// `MPI_ERR_FILE_EXISTS` (error_class).
pub const MPI_ERR_FILE_EXISTS: i32 = 28;
/// `MPI_ERR_FILE_IN_USE` (error_class).
pub const MPI_ERR_FILE_IN_USE: i32 = 29;
/// `MPI_ERR_FILE` (error_class).
pub const MPI_ERR_FILE: i32 = 30;
/// `MPI_ERR_INFO_KEY` (error_class).
pub const MPI_ERR_INFO_KEY: i32 = 31;
/// `MPI_ERR_INFO_NOKEY` (error_class).
pub const MPI_ERR_INFO_NOKEY: i32 = 32;
/// `MPI_ERR_INFO_VALUE` (error_class).
pub const MPI_ERR_INFO_VALUE: i32 = 33;
/// `MPI_ERR_INFO` (error_class).
pub const MPI_ERR_INFO: i32 = 34;
/// `MPI_ERR_IO` (error_class).
pub const MPI_ERR_IO: i32 = 35;
/// `MPI_ERR_KEYVAL` (error_class).
pub const MPI_ERR_KEYVAL: i32 = 36;
/// `MPI_ERR_LOCKTYPE` (error_class).
pub const MPI_ERR_LOCKTYPE: i32 = 37;
/// `MPI_ERR_NAME` (error_class).
pub const MPI_ERR_NAME: i32 = 38;
/// `MPI_ERR_NO_MEM` (error_class).
pub const MPI_ERR_NO_MEM: i32 = 39;
/// `MPI_ERR_NOT_SAME` (error_class).
pub const MPI_ERR_NOT_SAME: i32 = 40;
/// `MPI_ERR_NO_SPACE` (error_class).
pub const MPI_ERR_NO_SPACE: i32 = 41;
/// `MPI_ERR_NO_SUCH_FILE` (error_class).
pub const MPI_ERR_NO_SUCH_FILE: i32 = 42;
/// `MPI_ERR_PORT` (error_class).
pub const MPI_ERR_PORT: i32 = 43;
/// `MPI_ERR_QUOTA` (error_class).
pub const MPI_ERR_QUOTA: i32 = 44;
/// `MPI_ERR_READ_ONLY` (error_class).
pub const MPI_ERR_READ_ONLY: i32 = 45;
/// `MPI_ERR_RMA_ATTACH` (error_class).
pub const MPI_ERR_RMA_ATTACH: i32 = 46;
/// `MPI_ERR_RMA_CONFLICT` (error_class).
pub const MPI_ERR_RMA_CONFLICT: i32 = 47;
/// `MPI_ERR_RMA_RANGE` (error_class).
pub const MPI_ERR_RMA_RANGE: i32 = 48;
/// `MPI_ERR_RMA_SHARED` (error_class).
pub const MPI_ERR_RMA_SHARED: i32 = 49;
/// `MPI_ERR_RMA_SYNC` (error_class).
pub const MPI_ERR_RMA_SYNC: i32 = 50;
/// `MPI_ERR_SERVICE` (error_class).
pub const MPI_ERR_SERVICE: i32 = 51;
/// `MPI_ERR_SIZE` (error_class).
pub const MPI_ERR_SIZE: i32 = 52;
/// `MPI_ERR_SPAWN` (error_class).
pub const MPI_ERR_SPAWN: i32 = 53;
/// `MPI_ERR_UNSUPPORTED_DATAREP` (error_class).
pub const MPI_ERR_UNSUPPORTED_DATAREP: i32 = 54;
/// `MPI_ERR_UNSUPPORTED_OPERATION` (error_class).
pub const MPI_ERR_UNSUPPORTED_OPERATION: i32 = 55;
/// `MPI_ERR_WIN` (error_class).
pub const MPI_ERR_WIN: i32 = 56;
/// `MPI_ERR_RMA_FLAVOR` (error_class).
pub const MPI_ERR_RMA_FLAVOR: i32 = 57;
/// `MPI_ERR_PROC_ABORTED` (error_class).
pub const MPI_ERR_PROC_ABORTED: i32 = 58;
/// `MPI_ERR_VALUE_TOO_LARGE` (error_class).
pub const MPI_ERR_VALUE_TOO_LARGE: i32 = 59;
/// `MPI_ERR_SESSION` (error_class).
pub const MPI_ERR_SESSION: i32 = 60;
/// `MPI_ERR_ERRHANDLER` (error_class).
pub const MPI_ERR_ERRHANDLER: i32 = 61;
/// `MPI_ERR_ABI` (error_class).
pub const MPI_ERR_ABI: i32 = 62;
/// `MPI_T_ERR_CANNOT_INIT` (error_class:MPI_T).
pub const MPI_T_ERR_CANNOT_INIT: i32 = 1001;
/// `MPI_T_ERR_NOT_ACCESSIBLE` (error_class:MPI_T).
pub const MPI_T_ERR_NOT_ACCESSIBLE: i32 = 1002;
/// `MPI_T_ERR_NOT_INITIALIZED` (error_class:MPI_T).
pub const MPI_T_ERR_NOT_INITIALIZED: i32 = 1003;
/// `MPI_T_ERR_NOT_SUPPORTED` (error_class:MPI_T).
pub const MPI_T_ERR_NOT_SUPPORTED: i32 = 1004;
/// `MPI_T_ERR_MEMORY` (error_class:MPI_T).
pub const MPI_T_ERR_MEMORY: i32 = 1005;
/// `MPI_T_ERR_INVALID` (error_class:MPI_T).
pub const MPI_T_ERR_INVALID: i32 = 1006;
/// `MPI_T_ERR_INVALID_INDEX` (error_class:MPI_T).
pub const MPI_T_ERR_INVALID_INDEX: i32 = 1007;
/// `MPI_T_ERR_INVALID_ITEM` (error_class:MPI_T).
pub const MPI_T_ERR_INVALID_ITEM: i32 = 1008;
/// `MPI_T_ERR_INVALID_SESSION` (error_class:MPI_T).
pub const MPI_T_ERR_INVALID_SESSION: i32 = 1009;
/// `MPI_T_ERR_INVALID_HANDLE` (error_class:MPI_T).
pub const MPI_T_ERR_INVALID_HANDLE: i32 = 1010;
/// `MPI_T_ERR_INVALID_NAME` (error_class:MPI_T).
pub const MPI_T_ERR_INVALID_NAME: i32 = 1011;
/// `MPI_T_ERR_OUT_OF_HANDLES` (error_class:MPI_T).
pub const MPI_T_ERR_OUT_OF_HANDLES: i32 = 1012;
/// `MPI_T_ERR_OUT_OF_SESSIONS` (error_class:MPI_T).
pub const MPI_T_ERR_OUT_OF_SESSIONS: i32 = 1013;
/// `MPI_T_ERR_CVAR_SET_NOT_NOW` (error_class:MPI_T).
pub const MPI_T_ERR_CVAR_SET_NOT_NOW: i32 = 1014;
/// `MPI_T_ERR_CVAR_SET_NEVER` (error_class:MPI_T).
pub const MPI_T_ERR_CVAR_SET_NEVER: i32 = 1015;
/// `MPI_T_ERR_PVAR_NO_WRITE` (error_class:MPI_T).
pub const MPI_T_ERR_PVAR_NO_WRITE: i32 = 1016;
/// `MPI_T_ERR_PVAR_NO_STARTSTOP` (error_class:MPI_T).
pub const MPI_T_ERR_PVAR_NO_STARTSTOP: i32 = 1017;
/// `MPI_T_ERR_PVAR_NO_ATOMIC` (error_class:MPI_T).
pub const MPI_T_ERR_PVAR_NO_ATOMIC: i32 = 1018;
/// `MPI_ERR_LASTCODE` (error_class).
pub const MPI_ERR_LASTCODE: i32 = 16383;
/// `MPI_BOTTOM` (pointer:void*).
pub const MPI_BOTTOM: usize = 0;
/// `MPI_IN_PLACE` (pointer:void*).
pub const MPI_IN_PLACE: usize = 1;
/// `MPI_BUFFER_AUTOMATIC` (pointer:void*).
pub const MPI_BUFFER_AUTOMATIC: usize = 2;
/// `MPI_ARGV_NULL` (pointer:char**).
pub const MPI_ARGV_NULL: usize = 0;
/// `MPI_ARGVS_NULL` (pointer:char***).
pub const MPI_ARGVS_NULL: usize = 0;
/// `MPI_ERRCODES_IGNORE` (pointer:int*).
pub const MPI_ERRCODES_IGNORE: usize = 0;
/// `MPI_STATUS_IGNORE` (pointer:MPI_Status*).
pub const MPI_STATUS_IGNORE: usize = 0;
/// `MPI_STATUSES_IGNORE` (pointer:MPI_Status*).
pub const MPI_STATUSES_IGNORE: usize = 0;
/// `MPI_UNWEIGHTED` (pointer:int*).
pub const MPI_UNWEIGHTED: usize = 10;
/// `MPI_WEIGHTS_EMPTY` (pointer:int*).
pub const MPI_WEIGHTS_EMPTY: usize = 11;
/// `MPI_MAX_DATAREP_STRING` (max_string_size).
pub const MPI_MAX_DATAREP_STRING: i32 = 128;
/// `MPI_MAX_ERROR_STRING` (max_string_size).
pub const MPI_MAX_ERROR_STRING: i32 = 512;
/// `MPI_MAX_INFO_KEY` (max_string_size).
pub const MPI_MAX_INFO_KEY: i32 = 256;
/// `MPI_MAX_INFO_VAL` (max_string_size).
pub const MPI_MAX_INFO_VAL: i32 = 1024;
/// `MPI_MAX_LIBRARY_VERSION_STRING` (max_string_size).
pub const MPI_MAX_LIBRARY_VERSION_STRING: i32 = 8192;
/// `MPI_MAX_OBJECT_NAME` (max_string_size).
pub const MPI_MAX_OBJECT_NAME: i32 = 128;
/// `MPI_MAX_PORT_NAME` (max_string_size).
pub const MPI_MAX_PORT_NAME: i32 = 1024;
/// `MPI_MAX_PROCESSOR_NAME` (max_string_size).
pub const MPI_MAX_PROCESSOR_NAME: i32 = 256;
/// `MPI_MAX_STRINGTAG_LEN` (max_string_size).
pub const MPI_MAX_STRINGTAG_LEN: i32 = 1024;
/// `MPI_MAX_PSET_NAME_LEN` (max_string_size).
pub const MPI_MAX_PSET_NAME_LEN: i32 = 1024;
/// `MPI_BSEND_OVERHEAD` (int).
pub const MPI_BSEND_OVERHEAD: i32 = 512;
/// `MPI_MODE_APPEND` (mode_bit).
pub const MPI_MODE_APPEND: i32 = 1;
/// `MPI_MODE_CREATE` (mode_bit).
pub const MPI_MODE_CREATE: i32 = 2;
/// `MPI_MODE_DELETE_ON_CLOSE` (mode_bit).
pub const MPI_MODE_DELETE_ON_CLOSE: i32 = 4;
/// `MPI_MODE_EXCL` (mode_bit).
pub const MPI_MODE_EXCL: i32 = 8;
/// `MPI_MODE_RDONLY` (mode_bit).
pub const MPI_MODE_RDONLY: i32 = 16;
/// `MPI_MODE_RDWR` (mode_bit).
pub const MPI_MODE_RDWR: i32 = 32;
/// `MPI_MODE_SEQUENTIAL` (mode_bit).
pub const MPI_MODE_SEQUENTIAL: i32 = 64;
/// `MPI_MODE_UNIQUE_OPEN` (mode_bit).
pub const MPI_MODE_UNIQUE_OPEN: i32 = 128;
/// `MPI_MODE_WRONLY` (mode_bit).
pub const MPI_MODE_WRONLY: i32 = 256;
/// `MPI_MODE_NOCHECK` (mode_bit).
pub const MPI_MODE_NOCHECK: i32 = 1024;
/// `MPI_MODE_NOPRECEDE` (mode_bit).
pub const MPI_MODE_NOPRECEDE: i32 = 2048;
/// `MPI_MODE_NOPUT` (mode_bit).
pub const MPI_MODE_NOPUT: i32 = 4096;
/// `MPI_MODE_NOSTORE` (mode_bit).
pub const MPI_MODE_NOSTORE: i32 = 8192;
/// `MPI_MODE_NOSUCCEED` (mode_bit).
pub const MPI_MODE_NOSUCCEED: i32 = 16384;
/// `MPI_ANY_SOURCE` (int).
pub const MPI_ANY_SOURCE: i32 = -1;
/// `MPI_ANY_TAG` (int).
pub const MPI_ANY_TAG: i32 = -2;
/// `MPI_PROC_NULL` (int).
pub const MPI_PROC_NULL: i32 = -3;
/// `MPI_ROOT` (int).
pub const MPI_ROOT: i32 = -4;
/// `MPI_UNDEFINED` (int).
pub const MPI_UNDEFINED: i32 = -32766;
/// `MPI_THREAD_SINGLE` (thread_level).
pub const MPI_THREAD_SINGLE: i32 = 0;
/// `MPI_THREAD_FUNNELED` (thread_level).
pub const MPI_THREAD_FUNNELED: i32 = 1024;
/// `MPI_THREAD_SERIALIZED` (thread_level).
pub const MPI_THREAD_SERIALIZED: i32 = 2048;
/// `MPI_THREAD_MULTIPLE` (thread_level).
pub const MPI_THREAD_MULTIPLE: i32 = 4096;
/// `MPI_ORDER_C` (int).
pub const MPI_ORDER_C: i32 = 12;
/// `MPI_ORDER_FORTRAN` (int).
pub const MPI_ORDER_FORTRAN: i32 = 15;
/// `MPI_DISTRIBUTE_NONE` (int).
pub const MPI_DISTRIBUTE_NONE: i32 = 16;
/// `MPI_DISTRIBUTE_BLOCK` (int).
pub const MPI_DISTRIBUTE_BLOCK: i32 = 17;
/// `MPI_DISTRIBUTE_CYCLIC` (int).
pub const MPI_DISTRIBUTE_CYCLIC: i32 = 18;
/// `MPI_DISTRIBUTE_DFLT_DARG` (int).
pub const MPI_DISTRIBUTE_DFLT_DARG: i32 = 19;
/// `MPI_COMBINER_NAMED` (combiner).
pub const MPI_COMBINER_NAMED: i32 = 101;
/// `MPI_COMBINER_DUP` (combiner).
pub const MPI_COMBINER_DUP: i32 = 102;
/// `MPI_COMBINER_CONTIGUOUS` (combiner).
pub const MPI_COMBINER_CONTIGUOUS: i32 = 103;
/// `MPI_COMBINER_VECTOR` (combiner).
pub const MPI_COMBINER_VECTOR: i32 = 104;
/// `MPI_COMBINER_HVECTOR` (combiner).
pub const MPI_COMBINER_HVECTOR: i32 = 105;
/// `MPI_COMBINER_INDEXED` (combiner).
pub const MPI_COMBINER_INDEXED: i32 = 106;
/// `MPI_COMBINER_HINDEXED` (combiner).
pub const MPI_COMBINER_HINDEXED: i32 = 107;
/// `MPI_COMBINER_INDEXED_BLOCK` (combiner).
pub const MPI_COMBINER_INDEXED_BLOCK: i32 = 108;
/// `MPI_COMBINER_HINDEXED_BLOCK` (combiner).
pub const MPI_COMBINER_HINDEXED_BLOCK: i32 = 109;
/// `MPI_COMBINER_STRUCT` (combiner).
pub const MPI_COMBINER_STRUCT: i32 = 110;
/// `MPI_COMBINER_SUBARRAY` (combiner).
pub const MPI_COMBINER_SUBARRAY: i32 = 111;
/// `MPI_COMBINER_DARRAY` (combiner).
pub const MPI_COMBINER_DARRAY: i32 = 112;
/// `MPI_COMBINER_F90_REAL` (combiner).
pub const MPI_COMBINER_F90_REAL: i32 = 113;
/// `MPI_COMBINER_F90_COMPLEX` (combiner).
pub const MPI_COMBINER_F90_COMPLEX: i32 = 114;
/// `MPI_COMBINER_F90_INTEGER` (combiner).
pub const MPI_COMBINER_F90_INTEGER: i32 = 115;
/// `MPI_COMBINER_RESIZED` (combiner).
pub const MPI_COMBINER_RESIZED: i32 = 116;
/// `MPI_COMBINER_VALUE_INDEX` (combiner).
pub const MPI_COMBINER_VALUE_INDEX: i32 = 117;
/// `MPIX_TYPECLASS_LOGICAL` (int).
pub const MPIX_TYPECLASS_LOGICAL: i32 = 191;
/// `MPI_TYPECLASS_INTEGER` (int).
pub const MPI_TYPECLASS_INTEGER: i32 = 192;
/// `MPI_TYPECLASS_REAL` (int).
pub const MPI_TYPECLASS_REAL: i32 = 193;
/// `MPI_TYPECLASS_COMPLEX` (int).
pub const MPI_TYPECLASS_COMPLEX: i32 = 194;
/// `MPI_IDENT` (int).
pub const MPI_IDENT: i32 = 201;
/// `MPI_CONGRUENT` (int).
pub const MPI_CONGRUENT: i32 = 202;
/// `MPI_SIMILAR` (int).
pub const MPI_SIMILAR: i32 = 203;
/// `MPI_UNEQUAL` (int).
pub const MPI_UNEQUAL: i32 = 204;
/// `MPI_CART` (int).
pub const MPI_CART: i32 = 211;
/// `MPI_GRAPH` (int).
pub const MPI_GRAPH: i32 = 212;
/// `MPI_DIST_GRAPH` (int).
pub const MPI_DIST_GRAPH: i32 = 213;
/// `MPI_COMM_TYPE_SHARED` (int).
pub const MPI_COMM_TYPE_SHARED: i32 = 221;
/// `MPI_COMM_TYPE_HW_UNGUIDED` (int).
pub const MPI_COMM_TYPE_HW_UNGUIDED: i32 = 222;
/// `MPI_COMM_TYPE_HW_GUIDED` (int).
pub const MPI_COMM_TYPE_HW_GUIDED: i32 = 223;
/// `MPI_COMM_TYPE_RESOURCE_GUIDED` (int).
pub const MPI_COMM_TYPE_RESOURCE_GUIDED: i32 = 224;
/// `MPI_LOCK_EXCLUSIVE` (int).
pub const MPI_LOCK_EXCLUSIVE: i32 = 301;
/// `MPI_LOCK_SHARED` (int).
pub const MPI_LOCK_SHARED: i32 = 302;
/// `MPI_WIN_FLAVOR_CREATE` (int).
pub const MPI_WIN_FLAVOR_CREATE: i32 = 311;
/// `MPI_WIN_FLAVOR_ALLOCATE` (int).
pub const MPI_WIN_FLAVOR_ALLOCATE: i32 = 312;
/// `MPI_WIN_FLAVOR_DYNAMIC` (int).
pub const MPI_WIN_FLAVOR_DYNAMIC: i32 = 313;
/// `MPI_WIN_FLAVOR_SHARED` (int).
pub const MPI_WIN_FLAVOR_SHARED: i32 = 314;
/// `MPI_WIN_UNIFIED` (int).
pub const MPI_WIN_UNIFIED: i32 = 321;
/// `MPI_WIN_SEPARATE` (int).
pub const MPI_WIN_SEPARATE: i32 = 322;
/// `MPI_SEEK_CUR` (int).
pub const MPI_SEEK_CUR: i32 = 401;
/// `MPI_SEEK_END` (int).
pub const MPI_SEEK_END: i32 = 402;
/// `MPI_SEEK_SET` (int).
pub const MPI_SEEK_SET: i32 = 403;
/// `MPI_DISPLACEMENT_CURRENT` (MPI_Offset).
pub const MPI_DISPLACEMENT_CURRENT: i64 = -1;
/// `MPI_KEYVAL_INVALID` (int).
pub const MPI_KEYVAL_INVALID: i32 = 0;
/// `MPI_TAG_UB` (int).
pub const MPI_TAG_UB: i32 = 501;
/// `MPI_IO` (int).
pub const MPI_IO: i32 = 502;
/// `MPI_HOST` (int).
pub const MPI_HOST: i32 = 503;
/// `MPI_WTIME_IS_GLOBAL` (int).
pub const MPI_WTIME_IS_GLOBAL: i32 = 504;
/// `MPI_APPNUM` (int).
pub const MPI_APPNUM: i32 = 505;
/// `MPI_LASTUSEDCODE` (int).
pub const MPI_LASTUSEDCODE: i32 = 506;
/// `MPI_UNIVERSE_SIZE` (int).
pub const MPI_UNIVERSE_SIZE: i32 = 507;
/// `MPI_WIN_BASE` (int).
pub const MPI_WIN_BASE: i32 = 601;
/// `MPI_WIN_DISP_UNIT` (int).
pub const MPI_WIN_DISP_UNIT: i32 = 602;
/// `MPI_WIN_SIZE` (int).
pub const MPI_WIN_SIZE: i32 = 603;
/// `MPI_WIN_CREATE_FLAVOR` (int).
pub const MPI_WIN_CREATE_FLAVOR: i32 = 604;
/// `MPI_WIN_MODEL` (int).
pub const MPI_WIN_MODEL: i32 = 605;
/// `MPI_NULL_COPY_FN` (pointer:MPI_Copy_function*).
pub const MPI_NULL_COPY_FN: usize = 0;
/// `MPI_DUP_FN` (pointer:MPI_Copy_function*).
pub const MPI_DUP_FN: usize = 1;
/// `MPI_NULL_DELETE_FN` (pointer:MPI_Delete_function*).
pub const MPI_NULL_DELETE_FN: usize = 0;
/// `MPI_COMM_NULL_COPY_FN` (pointer:MPI_Comm_copy_attr_function*).
pub const MPI_COMM_NULL_COPY_FN: usize = 0;
/// `MPI_COMM_DUP_FN` (pointer:MPI_Comm_copy_attr_function*).
pub const MPI_COMM_DUP_FN: usize = 1;
/// `MPI_COMM_NULL_DELETE_FN` (pointer:MPI_Comm_delete_attr_function*).
pub const MPI_COMM_NULL_DELETE_FN: usize = 0;
/// `MPI_TYPE_NULL_COPY_FN` (pointer:MPI_Type_copy_attr_function*).
pub const MPI_TYPE_NULL_COPY_FN: usize = 0;
/// `MPI_TYPE_DUP_FN` (pointer:MPI_Type_copy_attr_function*).
pub const MPI_TYPE_DUP_FN: usize = 1;
/// `MPI_TYPE_NULL_DELETE_FN` (pointer:MPI_Type_delete_attr_function*).
pub const MPI_TYPE_NULL_DELETE_FN: usize = 0;
/// `MPI_WIN_NULL_COPY_FN` (pointer:MPI_Win_copy_attr_function*).
pub const MPI_WIN_NULL_COPY_FN: usize = 0;
/// `MPI_WIN_DUP_FN` (pointer:MPI_Win_copy_attr_function*).
pub const MPI_WIN_DUP_FN: usize = 1;
/// `MPI_WIN_NULL_DELETE_FN` (pointer:MPI_Win_delete_attr_function*).
pub const MPI_WIN_NULL_DELETE_FN: usize = 0;
/// `MPI_CONVERSION_FN_NULL` (pointer:MPI_Datarep_conversion_function*).
pub const MPI_CONVERSION_FN_NULL: usize = 0;
/// `MPI_CONVERSION_FN_NULL_C` (pointer:MPI_Datarep_conversion_function_c*).
pub const MPI_CONVERSION_FN_NULL_C: usize = 0;
/// `MPI_T_ENUM_NULL` (MPI_T_enum).
pub const MPI_T_ENUM_NULL: usize = 0;
/// `MPI_T_CVAR_HANDLE_NULL` (MPI_T_cvar_handle).
pub const MPI_T_CVAR_HANDLE_NULL: usize = 0;
/// `MPI_T_PVAR_SESSION_NULL` (MPI_T_pvar_session).
pub const MPI_T_PVAR_SESSION_NULL: usize = 0;
/// `MPI_T_PVAR_HANDLE_NULL` (MPI_T_pvar_handle).
pub const MPI_T_PVAR_HANDLE_NULL: usize = 0;
/// `MPI_T_PVAR_ALL_HANDLES` (MPI_T_pvar_handle).
pub const MPI_T_PVAR_ALL_HANDLES: usize = 1;
/// `MPI_T_CB_REQUIRE_NONE` (mpi_t_int).
pub const MPI_T_CB_REQUIRE_NONE: i32 = 0;
/// `MPI_T_CB_REQUIRE_MPI_RESTRICTED` (mpi_t_int).
pub const MPI_T_CB_REQUIRE_MPI_RESTRICTED: i32 = 3;
/// `MPI_T_CB_REQUIRE_THREAD_SAFE` (mpi_t_int).
pub const MPI_T_CB_REQUIRE_THREAD_SAFE: i32 = 15;
/// `MPI_T_CB_REQUIRE_ASYNC_SIGNAL_SAFE` (mpi_t_int).
pub const MPI_T_CB_REQUIRE_ASYNC_SIGNAL_SAFE: i32 = 63;
/// `MPI_T_SOURCE_ORDERED` (mpi_t_int).
pub const MPI_T_SOURCE_ORDERED: i32 = 1;
/// `MPI_T_SOURCE_UNORDERED` (mpi_t_int).
pub const MPI_T_SOURCE_UNORDERED: i32 = 2;
/// `MPI_T_VERBOSITY_USER_BASIC` (mpi_t_int).
pub const MPI_T_VERBOSITY_USER_BASIC: i32 = 9;
/// `MPI_T_VERBOSITY_USER_DETAIL` (mpi_t_int).
pub const MPI_T_VERBOSITY_USER_DETAIL: i32 = 10;
/// `MPI_T_VERBOSITY_USER_ALL` (mpi_t_int).
pub const MPI_T_VERBOSITY_USER_ALL: i32 = 12;
/// `MPI_T_VERBOSITY_TUNER_BASIC` (mpi_t_int).
pub const MPI_T_VERBOSITY_TUNER_BASIC: i32 = 17;
/// `MPI_T_VERBOSITY_TUNER_DETAIL` (mpi_t_int).
pub const MPI_T_VERBOSITY_TUNER_DETAIL: i32 = 18;
/// `MPI_T_VERBOSITY_TUNER_ALL` (mpi_t_int).
pub const MPI_T_VERBOSITY_TUNER_ALL: i32 = 20;
/// `MPI_T_VERBOSITY_MPIDEV_BASIC` (mpi_t_int).
pub const MPI_T_VERBOSITY_MPIDEV_BASIC: i32 = 33;
/// `MPI_T_VERBOSITY_MPIDEV_DETAIL` (mpi_t_int).
pub const MPI_T_VERBOSITY_MPIDEV_DETAIL: i32 = 34;
/// `MPI_T_VERBOSITY_MPIDEV_ALL` (mpi_t_int).
pub const MPI_T_VERBOSITY_MPIDEV_ALL: i32 = 36;
/// `MPI_T_BIND_NO_OBJECT` (mpi_t_int).
pub const MPI_T_BIND_NO_OBJECT: i32 = 1;
/// `MPI_T_BIND_MPI_COMM` (mpi_t_int).
pub const MPI_T_BIND_MPI_COMM: i32 = 2;
/// `MPI_T_BIND_MPI_DATATYPE` (mpi_t_int).
pub const MPI_T_BIND_MPI_DATATYPE: i32 = 3;
/// `MPI_T_BIND_MPI_ERRHANDLER` (mpi_t_int).
pub const MPI_T_BIND_MPI_ERRHANDLER: i32 = 4;
/// `MPI_T_BIND_MPI_FILE` (mpi_t_int).
pub const MPI_T_BIND_MPI_FILE: i32 = 5;
/// `MPI_T_BIND_MPI_GROUP` (mpi_t_int).
pub const MPI_T_BIND_MPI_GROUP: i32 = 6;
/// `MPI_T_BIND_MPI_OP` (mpi_t_int).
pub const MPI_T_BIND_MPI_OP: i32 = 7;
/// `MPI_T_BIND_MPI_REQUEST` (mpi_t_int).
pub const MPI_T_BIND_MPI_REQUEST: i32 = 8;
/// `MPI_T_BIND_MPI_WIN` (mpi_t_int).
pub const MPI_T_BIND_MPI_WIN: i32 = 9;
/// `MPI_T_BIND_MPI_MESSAGE` (mpi_t_int).
pub const MPI_T_BIND_MPI_MESSAGE: i32 = 10;
/// `MPI_T_BIND_MPI_INFO` (mpi_t_int).
pub const MPI_T_BIND_MPI_INFO: i32 = 11;
/// `MPI_T_BIND_MPI_SESSION` (mpi_t_int).
pub const MPI_T_BIND_MPI_SESSION: i32 = 12;
/// `MPI_T_SCOPE_CONSTANT` (mpi_t_int).
pub const MPI_T_SCOPE_CONSTANT: i32 = 1;
/// `MPI_T_SCOPE_READONLY` (mpi_t_int).
pub const MPI_T_SCOPE_READONLY: i32 = 2;
/// `MPI_T_SCOPE_LOCAL` (mpi_t_int).
pub const MPI_T_SCOPE_LOCAL: i32 = 3;
/// `MPI_T_SCOPE_GROUP` (mpi_t_int).
pub const MPI_T_SCOPE_GROUP: i32 = 4;
/// `MPI_T_SCOPE_GROUP_EQ` (mpi_t_int).
pub const MPI_T_SCOPE_GROUP_EQ: i32 = 5;
/// `MPI_T_SCOPE_ALL` (mpi_t_int).
pub const MPI_T_SCOPE_ALL: i32 = 6;
/// `MPI_T_SCOPE_ALL_EQ` (mpi_t_int).
pub const MPI_T_SCOPE_ALL_EQ: i32 = 7;
/// `MPI_T_PVAR_CLASS_STATE` (mpi_t_int).
pub const MPI_T_PVAR_CLASS_STATE: i32 = 1;
/// `MPI_T_PVAR_CLASS_LEVEL` (mpi_t_int).
pub const MPI_T_PVAR_CLASS_LEVEL: i32 = 2;
/// `MPI_T_PVAR_CLASS_SIZE` (mpi_t_int).
pub const MPI_T_PVAR_CLASS_SIZE: i32 = 3;
/// `MPI_T_PVAR_CLASS_PERCENTAGE` (mpi_t_int).
pub const MPI_T_PVAR_CLASS_PERCENTAGE: i32 = 4;
/// `MPI_T_PVAR_CLASS_HIGHWATERMARK` (mpi_t_int).
pub const MPI_T_PVAR_CLASS_HIGHWATERMARK: i32 = 5;
/// `MPI_T_PVAR_CLASS_LOWWATERMARK` (mpi_t_int).
pub const MPI_T_PVAR_CLASS_LOWWATERMARK: i32 = 6;
/// `MPI_T_PVAR_CLASS_COUNTER` (mpi_t_int).
pub const MPI_T_PVAR_CLASS_COUNTER: i32 = 7;
/// `MPI_T_PVAR_CLASS_AGGREGATE` (mpi_t_int).
pub const MPI_T_PVAR_CLASS_AGGREGATE: i32 = 8;
/// `MPI_T_PVAR_CLASS_TIMER` (mpi_t_int).
pub const MPI_T_PVAR_CLASS_TIMER: i32 = 9;
/// `MPI_T_PVAR_CLASS_GENERIC` (mpi_t_int).
pub const MPI_T_PVAR_CLASS_GENERIC: i32 = 10;
