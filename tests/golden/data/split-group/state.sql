BEGIN TRANSACTION;
CREATE TABLE "_trident" (
        state TEXT NOT NULL PRIMARY KEY COLLATE NOCASE,
        topology TEXT NOT NULL, uuid TEXT NOT NULL, incarnation INTEGER NOT NULL,
        fence INTEGER NOT NULL, owner TEXT NOT NULL, columns TEXT NOT NULL,
        txid INTEGER, epoch INTEGER, attempt_id INTEGER, run_first INTEGER
    );
INSERT INTO "_trident" VALUES('counts','golden-split-group','a0af253b-f254-42df-aed7-c07ed32c79e8',1,1,'a506361ad1864d1f8d3df86f1a0007b3','digit bigint, count bigint',4,1,0,4);
CREATE TABLE "counts" ("digit" INTEGER CHECK (typeof("digit") IN ('integer', 'null')), "count" INTEGER CHECK (typeof("count") IN ('integer', 'null')), "_key" TEXT NOT NULL PRIMARY KEY, "_txid" INTEGER NOT NULL, "_prev" INTEGER, "_born" INTEGER NOT NULL) WITHOUT ROWID;
INSERT INTO "counts" VALUES(0,2000,'[0]',4,1500,1);
INSERT INTO "counts" VALUES(1,2000,'[1]',4,1500,1);
INSERT INTO "counts" VALUES(2,2000,'[2]',4,1500,1);
INSERT INTO "counts" VALUES(3,2000,'[3]',4,1500,1);
INSERT INTO "counts" VALUES(4,2000,'[4]',4,1500,1);
INSERT INTO "counts" VALUES(5,2000,'[5]',4,1500,1);
INSERT INTO "counts" VALUES(6,2000,'[6]',4,1500,1);
INSERT INTO "counts" VALUES(7,2000,'[7]',4,1500,1);
INSERT INTO "counts" VALUES(8,2000,'[8]',4,1500,1);
INSERT INTO "counts" VALUES(9,2000,'[9]',4,1500,1);
COMMIT;
