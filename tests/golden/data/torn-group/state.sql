BEGIN TRANSACTION;
CREATE TABLE "_trident" (
        state TEXT NOT NULL PRIMARY KEY COLLATE NOCASE,
        topology TEXT NOT NULL, uuid TEXT NOT NULL, incarnation INTEGER NOT NULL,
        fence INTEGER NOT NULL, owner TEXT NOT NULL, columns TEXT NOT NULL,
        txid INTEGER, epoch INTEGER, attempt_id INTEGER, run_first INTEGER
    );
INSERT INTO "_trident" VALUES('by_key','golden-torn-group','20d5d11d-e9d3-487a-bb3d-da945f020b7b',1,1,'f7df7ef69b794fa9a744b90af0bd3389','word string, even boolean, day date, price decimal(10,2), ratio double, amount decimal(19,2)',4,1,0,2);
INSERT INTO "_trident" VALUES('batches','golden-torn-group','20d5d11d-e9d3-487a-bb3d-da945f020b7b',1,1,'62d2fb6e8fa5449aa9b44e6a91eefa47','even boolean, batches string',4,1,0,2);
INSERT INTO "_trident" VALUES('rows','golden-torn-group','20d5d11d-e9d3-487a-bb3d-da945f020b7b',1,1,'e013c2e1d69040fe8bb4e7166be62ff9','count bigint',1,1,0,1);
CREATE TABLE "batches" ("even" INTEGER CHECK (typeof("even") IN ('integer', 'null')), "batches" TEXT CHECK (typeof("batches") IN ('text', 'null')), "_key" TEXT NOT NULL PRIMARY KEY, "_txid" INTEGER NOT NULL, "_prev" TEXT, "_born" INTEGER NOT NULL) WITHOUT ROWID;
INSERT INTO "batches" VALUES(0,'1;2;3;4;','[false]',4,'1;2;3;',1);
INSERT INTO "batches" VALUES(1,'1;2;3;4;','[true]',4,'1;2;3;',1);
CREATE TABLE "by_key" ("word" TEXT CHECK (typeof("word") IN ('text', 'null')), "even" INTEGER CHECK (typeof("even") IN ('integer', 'null')), "day" TEXT CHECK (typeof("day") IN ('text', 'null')), "price" TEXT CHECK (typeof("price") IN ('text', 'null')), "ratio" REAL CHECK (typeof("ratio") IN ('real', 'null') OR "ratio" = 'NaN'), "amount" TEXT CHECK (typeof("amount") IN ('text', 'null')), "_key" TEXT NOT NULL PRIMARY KEY, "_txid" INTEGER NOT NULL, "_prev" TEXT, "_born" INTEGER NOT NULL) WITHOUT ROWID;
INSERT INTO "by_key" VALUES('wörd ''1''',0,'2020-02-29','0.25',3.33333333333333314829e-01,'0.96','["wörd ''1''",false,{"date":"2020-02-29"},{"decimal":"0.25"},0.3333333333333333]',4,'0.72',1);
INSERT INTO "by_key" VALUES('wörd ''2''',1,'2020-02-28','0.50',6.66666666666666629659e-01,'1.08','["wörd ''2''",true,{"date":"2020-02-28"},{"decimal":"0.5"},0.6666666666666666]',4,'0.81',1);
INSERT INTO "by_key" VALUES('wörd ''3''',0,'2020-02-29','0.75',1.0,'1.20','["wörd ''3''",false,{"date":"2020-02-29"},{"decimal":"0.75"},1.0]',4,'0.90',1);
INSERT INTO "by_key" VALUES('wörd ''4''',1,'2020-02-28','1.00',1.33333333333333325931e+00,'1.32','["wörd ''4''",true,{"date":"2020-02-28"},{"decimal":"1"},1.3333333333333333]',4,'0.99',1);
INSERT INTO "by_key" VALUES('wörd ''5''',0,'2020-02-29','1.25',1.66666666666666674068e+00,'1.44','["wörd ''5''",false,{"date":"2020-02-29"},{"decimal":"1.25"},1.6666666666666667]',4,'1.08',1);
INSERT INTO "by_key" VALUES('wörd ''6''',1,'2020-02-28','1.50',2.0,'0.76','["wörd ''6''",true,{"date":"2020-02-28"},{"decimal":"1.5"},2.0]',4,'0.57',1);
INSERT INTO "by_key" VALUES(NULL,1,'2020-02-28','0.00',0.0,'0.84','[null,true,{"date":"2020-02-28"},{"decimal":"0"},0.0]',4,'0.63',1);
CREATE TABLE "rows" ("count" INTEGER CHECK (typeof("count") IN ('integer', 'null')), "_key" TEXT NOT NULL PRIMARY KEY, "_txid" INTEGER NOT NULL, "_prev" INTEGER, "_born" INTEGER NOT NULL) WITHOUT ROWID;
INSERT INTO "rows" VALUES(20,'[]',1,NULL,1);
COMMIT;
