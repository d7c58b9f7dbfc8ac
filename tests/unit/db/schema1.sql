-- What SQLite's .dump prints of a store of schema version 1, which the first ucudnn wrote.
PRAGMA application_id=1969439863;
PRAGMA user_version=1;
BEGIN TRANSACTION;
CREATE TABLE kernels(id INTEGER PRIMARY KEY, op TEXT NOT NULL, c INTEGER NOT NULL, h INTEGER NOT NULL, w INTEGER NOT NULL, k INTEGER NOT NULL, r INTEGER NOT NULL, s INTEGER NOT NULL, pad_h INTEGER NOT NULL, pad_w INTEGER NOT NULL, stride_h INTEGER NOT NULL, stride_w INTEGER NOT NULL, dilation_h INTEGER NOT NULL, dilation_w INTEGER NOT NULL, groups INTEGER NOT NULL, dtype TEXT NOT NULL, layout TEXT NOT NULL, d INTEGER NOT NULL, t INTEGER NOT NULL, pad_d INTEGER NOT NULL, stride_d INTEGER NOT NULL, dilation_d INTEGER NOT NULL, math TEXT NOT NULL, compute TEXT NOT NULL, mode TEXT NOT NULL, x_strides TEXT NOT NULL, y_strides TEXT NOT NULL, align INTEGER NOT NULL, UNIQUE(op, c, h, w, k, r, s, pad_h, pad_w, stride_h, stride_w, dilation_h, dilation_w, groups, dtype, layout, d, t, pad_d, stride_d, dilation_d, math, compute, mode, x_strides, y_strides, align));
INSERT INTO "kernels" VALUES(1,'forward',64,27,27,192,5,5,2,2,1,1,1,1,1,'fp32','nchw',0,0,0,0,0,'','','','','',16);
INSERT INTO "kernels" VALUES(2,'backward_filter',64,27,27,192,5,5,2,2,1,1,1,1,1,'fp32','nchw',0,0,0,0,0,'fma','','','','',16);
CREATE TABLE measurements(id INTEGER PRIMARY KEY, kernel INTEGER NOT NULL REFERENCES kernels(id), device TEXT NOT NULL, cudnn INTEGER NOT NULL, driver INTEGER NOT NULL, engine TEXT NOT NULL, micro_batch INTEGER NOT NULL, time_ms REAL NOT NULL, workspace_bytes INTEGER NOT NULL, deterministic INTEGER NOT NULL, samples INTEGER NOT NULL, verified INTEGER NOT NULL, name TEXT NOT NULL, n INTEGER NOT NULL, UNIQUE(kernel, device, cudnn, driver, engine, micro_batch));
INSERT INTO "measurements" VALUES(1,1,'Some GPU',91900,13000,'legacy:0',256,3.25,0,1,5,0,'conv2',256);
INSERT INTO "measurements" VALUES(2,1,'Some GPU',91900,13000,'legacy:1',256,0.1,1048576,1,5,1,'conv2',256);
INSERT INTO "measurements" VALUES(3,1,'Some GPU',91900,13000,'legacy:1',32,1.23456789012345666961e-02,4096,1,5,0,'conv2',256);
INSERT INTO "measurements" VALUES(4,2,'Other GPU',90000,12040,'legacy:1',32,0.5,4096,0,5,0,'conv2',256);
COMMIT;
